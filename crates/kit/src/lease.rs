//! Leader election by a Lease: one replica acts, the others wait, and a leader that cannot renew stops acting before
//! anybody else may start.
//!
//! The decision is a pure function of the Lease, who we are, and how long *we* have seen the Lease unchanged: clocks
//! of different machines are never compared.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a Lease holds after its last renewal. With [`RENEW_EVERY`] below half of it, one lost renewal does not cost
/// the leadership; a dead leader is replaced after at most this long plus one round trip.
const HOLDS_FOR: Duration = Duration::from_secs(12);
/// How often the leader renews: the only write of an idle operator.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// When a leader that could not renew must have stopped acting: before the Lease runs out for the others.
const GIVE_UP_AFTER: Duration = Duration::from_secs(9);
/// Longest time one call may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// Pause after a failed call.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// What a candidate should do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The Lease is free, or was left unchanged for longer than it holds.
    Take,
    /// It is ours: renew it.
    Renew,
    /// Somebody else holds it; look again no later than this.
    Wait(Duration),
}

/// Decide from the Lease and the time since it last changed before our eyes.
pub fn decide(lease: Option<&LeaseSpec>, me: &str, unchanged_for: Duration) -> Decision {
    let Some(lease) = lease else { return Decision::Take };
    match lease.holder_identity.as_deref() {
        None | Some("") => Decision::Take,
        Some(holder) if holder == me => Decision::Renew,
        Some(_) => {
            let holds = lease
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map_or(HOLDS_FOR, Duration::from_secs);
            match holds.checked_sub(unchanged_for) {
                Some(rest) if !rest.is_zero() => Decision::Wait(rest),
                _ => Decision::Take,
            }
        }
    }
}

/// A candidate for the leadership.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    /// When the write that took the Lease was sent: for the others it counts from then.
    taken: Mutex<Option<Instant>>,
}

impl Candidate {
    /// `identity` must be unique per process: the pod's name.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            taken: Mutex::default(),
        }
    }

    /// Wait until the API server answers. Returns `false` if `stop` came first.
    pub async fn reach(&self, stop: &CancellationToken) -> bool {
        while let Err(error) = self.read().await {
            tracing::warn!(error = %error, lease = %self.name, "the API server does not answer yet");
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(RETRY_EVERY) => {}
            }
        }
        !stop.is_cancelled()
    }

    /// Wait until the Lease is ours. Returns `false` if `stop` came first.
    pub async fn acquire(&self, stop: &CancellationToken) -> bool {
        let fields = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut changes = watcher(self.api.clone(), fields).default_backoff().applied_objects().boxed();
        let mut seen: Option<(Option<String>, Instant)> = None;
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                () = stop.cancelled() => return false,
                // A Lease that is released wakes us at once; otherwise we sleep until it may have run out.
                _ = changes.try_next() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let Ok(lease) = self.read().await else {
                pause = RETRY_EVERY;
                continue;
            };
            let version = lease.as_ref().and_then(|lease| lease.meta().resource_version.clone());
            let since = match &seen {
                Some((known, since)) if *known == version => *since,
                _ => Instant::now(),
            };
            seen = Some((version, since));
            match decide(
                lease.as_ref().and_then(|lease| lease.spec.as_ref()),
                &self.identity,
                since.elapsed(),
            ) {
                Decision::Wait(rest) => pause = rest,
                Decision::Take | Decision::Renew => {
                    let asked = Instant::now();
                    match self.write(lease, Some(&self.identity)).await {
                        Ok(()) => {
                            *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
                            return true;
                        }
                        Err(error) => {
                            tracing::debug!(error = %error, "another candidate was faster");
                            pause = RETRY_EVERY;
                        }
                    }
                }
            }
        }
    }

    /// Keep renewing until `stop`, or until the leadership is lost. After `true` (stopped) the Lease is released, so
    /// that the next candidate starts at once; after `false` the caller must stop acting immediately.
    pub async fn hold(&self, stop: &CancellationToken) -> bool {
        let taken = *self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut renewed = taken.unwrap_or_else(Instant::now);
        let mut pause = RENEW_EVERY;
        loop {
            tokio::select! {
                () = stop.cancelled() => return true,
                () = tokio::time::sleep(pause) => {}
            }
            // For the others the Lease counts from the moment it is written, not from our hearing of it.
            let asked = Instant::now();
            match tokio::time::timeout_at(renewed + GIVE_UP_AFTER, self.renew()).await {
                Ok(Ok(true)) => {
                    renewed = asked;
                    pause = RENEW_EVERY;
                }
                Ok(Ok(false)) => {
                    tracing::error!(lease = %self.name, "another replica holds the lease");
                    return false;
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = %error, lease = %self.name, "failed to renew the lease");
                    pause = RETRY_EVERY;
                }
                Err(_) => {
                    tracing::error!(lease = %self.name, "the lease could not be renewed in time");
                    return false;
                }
            }
        }
    }

    /// Give the Lease back, if it is still ours.
    pub async fn release(&self) {
        if let Ok(Some(lease)) = self.read().await
            && lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(&self.identity)
            && let Err(error) = self.write(Some(lease), None).await
        {
            tracing::warn!(error = %error, lease = %self.name, "failed to release the lease");
        }
    }

    async fn read(&self) -> kube::Result<Option<Lease>> {
        within(self.api.get_opt(&self.name)).await
    }

    async fn renew(&self) -> kube::Result<bool> {
        let lease = self.read().await?;
        if decide(lease.as_ref().and_then(|lease| lease.spec.as_ref()), &self.identity, Duration::ZERO)
            != Decision::Renew
        {
            return Ok(false);
        }
        // A conflict is a failure too: somebody wrote in between, and the next reading tells who.
        self.write(lease, Some(&self.identity)).await.map(|()| true)
    }

    /// Write with the resourceVersion that was read: of two candidates only one can win.
    async fn write(&self, lease: Option<Lease>, holder: Option<&str>) -> kube::Result<()> {
        let now = MicroTime(Timestamp::now());
        let mut next = lease.unwrap_or_default();
        let exists = next.metadata.resource_version.is_some();
        next.metadata.name = Some(self.name.clone());
        let before = next.spec.take().unwrap_or_default();
        let same = before.holder_identity.as_deref() == holder;
        next.spec = Some(LeaseSpec {
            holder_identity: holder.map(ToOwned::to_owned),
            lease_duration_seconds: i32::try_from(HOLDS_FOR.as_secs()).ok(),
            acquire_time: if same { before.acquire_time } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(
                before.lease_transitions.unwrap_or(0) + i32::from(!same && holder.is_some()),
            ),
            ..LeaseSpec::default()
        });
        let parameters = PostParams::default();
        if exists {
            within(self.api.replace(&self.name, &parameters, &next)).await.map(|_| ())
        } else {
            within(self.api.create(&parameters, &next)).await.map(|_| ())
        }
    }
}

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(Box::new(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            "no answer from the API server in time",
        )))),
    }
}

#[cfg(test)]
mod tests;
