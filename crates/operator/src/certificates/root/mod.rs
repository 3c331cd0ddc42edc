//! The controller of `ValkeyCA`. It runs once, whatever namespaces the operator works in: a root belongs to none, and its
//! Secret is in the operator's own.

mod cert_manager;
mod plan;
mod status;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::certificates::{CaSource, ValkeyCASpec};
use api::condition::CertificateReason;
use api::{ValkeyCA, ValkeyCertificateBundle, keys};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::metrics::Metrics;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::Store;
use kube::{Client, ResourceExt as _};
use pki::{Certificate, lifetime, split};
use snafu::ResultExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::control::{self, Controls, Desk};
use super::store::{Unstored, store};
use super::{KEEP_SECRETS_FOR, events, order, soon, wake};
use crate::pass::{ActSnafu, Error};
use crate::references::{Known, References};
use crate::settings::Settings;
use crate::watch::{Scope, tell};
use plan::{Deed, Follower};
use status::{Found, State};
use stored::Contents;
pub(super) use stored::Root;
use stored::Unreadable;

/// Name of this controller in metrics.
const KIND: &str = "ValkeyCA";

/// The Secret of a root, in the operator's namespace.
pub(super) fn secret_name(root: &ValkeyCA) -> String {
    root.spec.ca_cert_secret_ref.as_ref().map_or_else(|| root.name_any(), |secret| secret.name.clone())
}

/// The root in a Secret, if those who trust it would believe what is signed below it; otherwise why not.
pub(super) fn usable(secret: &Secret, now: Timestamp) -> Result<Root, String> {
    let root = stored::root(secret).map_err(|unreadable| match unreadable {
        Unreadable::Missing(missing) => format!("its Secret lacks {}", missing.join(" and ")),
        Unreadable::Broken(why) => why,
    })?;
    root.authority.prove(now).map_err(|error| kit::telemetry::chain(&error))?;
    Ok(root)
}

/// What the controller works with.
struct Roots {
    desk: Desk<ValkeyCA>,
    references: References,
    bundles: Vec<Store<DeserializeGuard<ValkeyCertificateBundle>>>,
    namespace: String,
}

/// Run the controller until `stop`, for an operator that works in these namespaces.
pub(crate) async fn run(
    client: Client,
    scopes: Vec<Option<String>>,
    settings: Settings,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let reporter = Reporter { controller: keys::MANAGED_BY_VALUE.to_owned(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    let (desk, calls) = Desk::new(&client, &recorder, &metrics, KIND);
    let mut watches = JoinSet::new();
    let mut bundles = Vec::new();
    for namespace in scopes {
        let (store, changes) =
            Scope { client: client.clone(), namespace }.guarded::<ValkeyCertificateBundle>();
        bundles.push(store);
        let call = desk.call.clone();
        watches.spawn(tell(changes, move |bundle: &DeserializeGuard<ValkeyCertificateBundle>| {
            if let Ok(bundle) = &bundle.0 {
                call.call("", &bundle.spec.ca_ref.name);
            }
        }));
    }
    let (roots, changes) = Scope { client: client.clone(), namespace: None }.outside::<ValkeyCA>();
    let feed = control::feed(changes, |_| {}, calls, &mut watches);
    tokio::select! {
        () = stop.cancelled() => return,
        () = async { for store in &bundles { let _ = store.wait_until_ready().await; } } => {}
    }
    let controls = Roots { desk, references: References::default(), bundles, namespace: settings.namespace };
    control::run(Arc::new(controls), roots, feed, stop).await;
}

impl Controls for Roots {
    type Kind = ValkeyCA;

    fn desk(&self) -> &Desk<ValkeyCA> {
        &self.desk
    }

    async fn pass(&self, root: &ValkeyCA) -> Result<(&'static str, Action), Error> {
        let now = super::now();
        let (name, before) = (root.name_any(), root.status.clone().unwrap_or_default());
        let secret_name = secret_name(root);
        let referrer = self.desk.call.referrer("", &name, KEEP_SECRETS_FOR);
        let known = self.references.read(&self.desk.client, (&self.namespace, &secret_name), referrer).await;
        if matches!(known, Known::NotYet) {
            // Nothing is known of it, good or bad, so nothing is said or made.
            return Ok(("unseen", soon()));
        }
        let Seen { found, moments, mut error } = match root.spec.source {
            CaSource::External => match self.ask_cert_manager(root, &secret_name).await {
                Ok(()) => given(&root.spec, &known, &secret_name, now),
                Err(seen) => seen,
            },
            CaSource::Internal => self.own(root, &known, &secret_name, now).await,
        };
        if let Some(conflict) = error.take_if(|error| error.is_conflict()) {
            // What was looked at is not what there is: whatever was found out is not so.
            return Err(conflict).context(ActSnafu { kind: KIND, object: name });
        }
        let after = status::status(&found, &secret_name, &before, root.metadata.generation, now);
        let report = self.desk.report();
        if before != after {
            let api = Api::<ValkeyCA>::all(self.desk.client.clone());
            report.write_status_at(&api, root, &after).await?;
            report.tell(root, &events::between(&before.conditions, &after.conditions)).await;
        }
        let told = &self.desk.metrics.certificates;
        told.seen(KIND, ("", &name), after.phase.map(Into::into), after.expires_at.as_ref().map(|at| at.0));
        if before.thumbprint.is_some() && before.thumbprint != after.thumbprint {
            told.rotated(KIND);
        }
        if let Some(error) = error {
            return Err(error).context(ActSnafu { kind: KIND, object: name });
        }
        match found {
            Found::Root { .. } => Ok(("looked", wake(moments, now))),
            Found::Waiting { .. } | Found::Wrong { .. } => Ok(("waiting", soon())),
        }
    }

    fn forget(&self, namespace: &str, name: &str) {
        self.desk.metrics.certificates.forget(KIND, (namespace, name));
    }
}

/// What a pass found out, when to look again, and what went wrong on the way.
struct Seen {
    found: Found,
    moments: Vec<Timestamp>,
    error: Option<kit::apply::Error>,
}

impl From<Found> for Seen {
    fn from(found: Found) -> Self {
        Self { found, moments: Vec::new(), error: None }
    }
}

/// A root that somebody else looks after.
fn given(spec: &ValkeyCASpec, known: &Known, name: &str, now: Timestamp) -> Seen {
    let secret = match known {
        Known::There(secret) => secret,
        Known::Missing => {
            return waiting(
                vec!["tls.crt".to_owned(), "tls.key".to_owned()],
                format!("Secret {name} does not exist"),
            )
            .into();
        }
        Known::NotYet => return waiting(Vec::new(), format!("Secret {name} cannot be read")).into(),
    };
    let root = match stored::root(secret) {
        Ok(root) => root,
        Err(Unreadable::Missing(missing)) => {
            let message = format!("Secret {name} lacks {}", missing.join(" and "));
            return waiting(missing, message).into();
        }
        Err(Unreadable::Broken(why)) => return unusable(format!("Secret {name}: {why}")).into(),
    };
    if let Err(error) = root.authority.prove(now) {
        return unusable(format!("Secret {name}: {}", kit::telemetry::chain(&error))).into();
    }
    let certificate = root.authority.certificate().clone();
    let due = lifetime::due(certificate.begins, certificate.ends, spec.rotate_before_percent);
    let state = if now < due { State::Settled } else { State::Late };
    let moments = [due, certificate.ends].into_iter().filter(|moment| *moment > now).collect();
    let found = Found::Root {
        certificate: Box::new(certificate),
        trusted: thumbprints(&root.trusted),
        state,
        rotated_for: None,
    };
    Seen { found, moments, error: None }
}

fn waiting(missing: Vec<String>, message: String) -> Found {
    Found::Waiting { missing, message }
}

fn unusable(message: String) -> Found {
    Found::Wrong { reason: CertificateReason::Unusable, message }
}

fn thumbprints(trusted: &str) -> Vec<String> {
    split(trusted).iter().filter_map(|pem| Certificate::read(pem).ok()).map(|one| one.thumbprint).collect()
}

impl Roots {
    /// A root that the operator makes and replaces.
    async fn own(&self, root: &ValkeyCA, known: &Known, secret_name: &str, now: Timestamp) -> Seen {
        let live = match known {
            Known::There(secret) => Some(secret.as_ref()),
            Known::Missing => None,
            // To make another one because this one was not seen in time would end everything it signed.
            Known::NotYet => {
                return waiting(Vec::new(), format!("Secret {secret_name} cannot be read")).into();
            }
        };
        let name = root.name_any();
        if live.is_some_and(|secret| !is_ours(&secret.metadata, &name)) {
            return self.taken(secret_name).into();
        }
        let stored = live.map(|secret| Contents::read(secret).filter(|_| stored::root(secret).is_ok()));
        let Some(stored) = stored.map_or(Some(None), |stored| stored.map(Some)) else {
            // Whatever it was, it is not for us to throw away.
            let words =
                "holds no root that can be read; put back what it held, or delete it and a new root is made";
            return unusable(format!("Secret {secret_name} {words}")).into();
        };
        let order = order(root);
        let followers = self.followers(&name);
        let plan = plan::plan(&root.spec, stored.as_ref(), order.as_deref(), &followers, now);
        let days = SignedDuration::from_hours(24 * i64::from(root.spec.valid_for_days));
        let next = match (plan.deed, stored.clone()) {
            (Deed::Make, _) | (_, None) => Contents::first(&name, days, order, now),
            (Deed::Announce, Some(stored)) => stored.announced(&name, days, order, now),
            (Deed::Switch, Some(stored)) => Ok(stored.switched(now)),
            (Deed::Retire, Some(stored)) => Ok(stored.retired(now)),
            (Deed::Date, Some(stored)) => Ok(stored.dated(now)),
            (Deed::Rest, Some(stored)) => Ok(stored),
        };
        let next = match next {
            Ok(next) => next,
            Err(error) => return unusable(kit::telemetry::chain(&error)).into(),
        };
        let secret = next.secret(metadata(secret_name, &name));
        if let Err(why) = usable(&secret, now) {
            return unusable(format!("Secret {secret_name}: {why}")).into();
        }
        if plan.deed != Deed::Rest {
            tracing::info!(root = %name, deed = ?plan.deed, "replacing the root");
        }
        let mut seen =
            Seen { found: found(&next, &followers), moments: plan.wake.into_iter().collect(), error: None };
        // At rest, too: what others change of its labels is put back.
        let is_ours = |meta: &ObjectMeta| is_ours(meta, &name);
        match store(&self.desk.client, &self.namespace, &secret, live, is_ours).await {
            Ok(()) => {}
            Err(Unstored::Taken(_)) => return self.taken(secret_name).into(),
            Err(Unstored::Ending) => {
                return unusable(format!("Secret {secret_name} is being deleted")).into();
            }
            Err(Unstored::Failed(error)) => {
                let before = || stored.as_ref().map_or_else(pending, |stored| found(stored, &followers));
                seen.found = error.refusal().map_or_else(before, |words| Found::Wrong {
                    reason: CertificateReason::ApplyRefused,
                    message: words.to_owned(),
                });
                seen.error = Some(error);
            }
        }
        seen
    }

    fn taken(&self, secret_name: &str) -> Found {
        let message =
            format!("Secret {secret_name} in namespace {} belongs to somebody else", self.namespace);
        Found::Wrong { reason: CertificateReason::NameCollision, message }
    }

    /// The bundles below a root, in every namespace that the operator works in.
    fn followers(&self, root: &str) -> Vec<Follower> {
        let all = self.bundles.iter().flat_map(Store::state);
        let below = all.filter_map(|bundle| {
            let bundle = bundle.0.as_ref().ok()?;
            (bundle.spec.ca_ref.name == root).then(|| Follower {
                name: format!("{}/{}", bundle.namespace().unwrap_or_default(), bundle.name_any()),
                // While it moves, somebody may still show what the one before signed.
                root: bundle
                    .status
                    .as_ref()
                    .filter(|status| status.trusted.len() == 1)
                    .and_then(|status| status.ca_thumbprint.clone()),
            })
        });
        below.collect()
    }
}

fn pending() -> Found {
    waiting(Vec::new(), "the root is being made".to_owned())
}

fn found(contents: &Contents, followers: &[Follower]) -> Found {
    let Some(certificate) = contents.certificate() else { return pending() };
    let state = match (contents.is_announced(), contents.is_overlapping()) {
        (true, _) => State::Announced,
        (false, true) => State::Overlapping(plan::lagging(&certificate.thumbprint, followers)),
        (false, false) => State::Settled,
    };
    Found::Root {
        certificate: Box::new(certificate),
        trusted: contents.thumbprints(),
        state,
        rotated_for: contents.rotated_for.clone(),
    }
}

/// A root outlives the object that asked for it, as data does: there is no owner, and whoever makes the object again finds its
/// root again.
fn metadata(secret: &str, root: &str) -> ObjectMeta {
    let labels = [(keys::NAME, keys::NAME_VALUE), (keys::MANAGED_BY, keys::MANAGED_BY_VALUE)];
    ObjectMeta {
        name: Some(secret.to_owned()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        annotations: Some(BTreeMap::from([(keys::CR.to_owned(), root.to_owned())])),
        ..ObjectMeta::default()
    }
}

/// Labels may be lost and are put back; this is put there by nobody else.
fn is_ours(meta: &ObjectMeta, root: &str) -> bool {
    meta.annotations.as_ref().and_then(|all| all.get(keys::CR)).is_some_and(|found| found == root)
}
