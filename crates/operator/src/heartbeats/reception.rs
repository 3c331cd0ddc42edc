//! Whom to believe, and whom to tell.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use api::{ValkeyCertificateBinding, ValkeyCluster, names};
use channel::{Credentials, Doorbell, Peer, Refusal};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kit::metrics::Metrics;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource as _, ResourceExt as _};
use pki::{Home, Role};
use proto::heartbeat::{Event, Reply};
use proto::promises::Promises;
use secrecy::SecretString;
use tokio::sync::watch;

use super::member::{Member, Unwelcome, member};
use super::reports::{FRESH_FOR, Message, Reports, Untaken};
use super::unreached::Unreached;
use super::vote::{Missed, SUSPICION, place_of};
use crate::certificates::pem;
use crate::objects::controlled_by;

/// Why somebody is sent away before anybody asks who it is.
const TOO_MANY: &str = "tooMany";
/// How often a reason is worth a line in the log.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Whoever looks after a pod is told of its news.
pub(crate) type News = Arc<dyn Fn(&Member) + Send + Sync>;

/// The pods and Secrets of one namespace, or of all.
pub(crate) struct Household {
    pub(crate) namespace: Option<String>,
    pub(crate) pods: Store<Pod>,
    pub(crate) secrets: Store<Secret>,
    pub(crate) bindings: Store<DeserializeGuard<ValkeyCertificateBinding>>,
    pub(crate) news: News,
}

impl Household {
    /// The Secret with what the operator shows to the agents of a cluster. Anybody who may write Secrets may give one a name, a
    /// label and an owner; the uid of a binding that the cluster made is not theirs to choose.
    fn secret_of(&self, home: &Home) -> Option<Arc<Secret>> {
        let (secret, binding) =
            (names::operator_certificate(&home.cluster), names::operator_binding(&home.cluster));
        let secret = self.secrets.get(&ObjectRef::new(&secret).within(&home.namespace))?;
        let binding = self.bindings.get(&ObjectRef::new(&binding).within(&home.namespace))?;
        let is_of_cluster = binding.owner_references().iter().any(|owner| {
            owner.controller == Some(true)
                && owner.kind == ValkeyCluster::kind(&())
                && owner.name == home.cluster
        });
        (is_of_cluster && controlled_by(secret.meta(), binding.uid().as_deref())).then_some(secret)
    }
}

/// Somebody who speaks for a pod, and who is told of it.
pub(super) struct Welcome {
    member: Member,
    /// Where it speaks from.
    place: String,
    news: News,
}

/// What is known of the agent of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Agent {
    /// There is none beside the server.
    #[default]
    Absent,
    /// Nobody has listened for long enough to know.
    Unknown,
    Silent,
    Heard,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unheard {
    Unwelcome(Unwelcome),
    Replayed,
    TooMany,
}

/// Credentials that were read before, by the version of their Secret.
type Read = HashMap<Home, (String, Arc<Credentials>)>;

/// Everything that agents are received with.
pub struct Reception {
    trust_domain: String,
    households: RwLock<Vec<Household>>,
    opened: watch::Sender<usize>,
    /// When somebody could be heard for the first time.
    since: OnceLock<Instant>,
    read: Mutex<Read>,
    complained: Mutex<HashMap<&'static str, Instant>>,
    pub(crate) reports: Reports,
    unreached: Unreached,
    /// From when somebody could be heard: what was promised before, another one promised.
    promises: OnceLock<Mutex<Promises>>,
    pub(super) metrics: Metrics,
}

impl Reception {
    /// Nobody is known yet.
    pub fn new(trust_domain: &str, metrics: Metrics) -> Self {
        Self {
            trust_domain: trust_domain.to_owned(),
            households: RwLock::default(),
            opened: watch::Sender::new(0),
            since: OnceLock::new(),
            read: Mutex::default(),
            complained: Mutex::default(),
            reports: Reports::default(),
            unreached: Unreached::default(),
            promises: OnceLock::new(),
            metrics,
        }
    }

    /// From now on, the agents of these pods are heard. Whoever calls this has waited for the caches: in an empty one there is nobody.
    pub(crate) fn open(&self, household: Household) {
        let since = self.since.get_or_init(Instant::now);
        self.promises.get_or_init(|| Mutex::new(Promises::of_those_who_are_heard(SUSPICION, *since)));
        self.households.write().unwrap_or_else(PoisonError::into_inner).push(household);
        self.opened.send_modify(|opened| *opened += 1);
    }

    /// Until so many households are open: whoever is asked before sends agents away that belong here.
    pub(crate) async fn is_open(&self, households: usize) {
        // An error would mean that this is gone.
        let _ = self.opened.subscribe().wait_for(|opened| *opened >= households).await;
    }

    /// A cluster, as those are known by who are of it.
    pub(crate) fn home(&self, namespace: &str, cluster: &str) -> Home {
        Home {
            trust_domain: self.trust_domain.clone(),
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    /// What is known of the agent in a pod.
    pub(crate) fn agent_in(&self, pod: &Pod, now: Instant) -> Agent {
        let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let has_sidecar =
            containers.map(|container| &container.name).any(|name| name == names::SIDECAR_CONTAINER);
        let uid = pod.metadata.uid.as_deref().filter(|_| has_sidecar);
        uid.map(|uid| self.agent(uid, now)).unwrap_or_default()
    }

    /// Whether the agent of a pod does what it is told, as far as anybody knows: it said whether it can, and it answers.
    pub(crate) fn obeys(&self, pod_uid: &str, now: Instant) -> Option<bool> {
        let obeys = self.reports.sets_directives(pod_uid);
        if self.unreached.holds_for(pod_uid, now) { Some(false) } else { obeys }
    }

    /// An agent was called and did not answer.
    pub(crate) fn called_in_vain(&self, pod_uid: &str, now: Instant) {
        self.unreached.in_vain(pod_uid, now);
    }

    /// An agent was called and answered.
    pub(crate) fn answered(&self, pod_uid: &str) {
        self.unreached.answered(pod_uid);
    }

    /// What is known of the agent of a pod. Whoever begins to listen has to wait for everybody's next word before silence means
    /// anything.
    pub(crate) fn agent(&self, pod_uid: &str, now: Instant) -> Agent {
        let listens_for = self.since.get().map(|since| now.saturating_duration_since(*since));
        match listens_for {
            _ if self.reports.is_heard(pod_uid, now) => Agent::Heard,
            Some(listens_for) if listens_for > FRESH_FOR => Agent::Silent,
            _ => Agent::Unknown,
        }
    }

    /// Whether somebody speaks for a pod. Asked before anything it says is read.
    pub(super) fn welcome(&self, peer: &Peer, address: IpAddr) -> Result<Welcome, Unheard> {
        let identity = &peer.identity;
        let welcome = self.at_home(&identity.namespace, |household| {
            let member = member(identity, address, household.pods.state().into_iter())?;
            Ok(Welcome { place: place_of(&member, address), member, news: household.news.clone() })
        });
        welcome.unwrap_or(Err(Unwelcome::NoSuchPod)).map_err(Unheard::Unwelcome)
    }

    /// Hear a message.
    pub(super) fn hear(&self, welcome: &Welcome, message: Message, now: Instant) -> Result<Reply, Unheard> {
        let Welcome { member, place, news } = welcome;
        if member.uid != message.stamp.pod_uid {
            return Err(Unheard::Unwelcome(Unwelcome::AnotherPod));
        }
        let taken = self.reports.hear(message, now).map_err(|untaken| match untaken {
            Untaken::Replayed => Unheard::Replayed,
            Untaken::TooMany => Unheard::TooMany,
        })?;
        if taken.is_news {
            news(member);
        }
        let objects = self.promises().is_some_and(|mut promises| {
            // Both, whatever the first says: what is promised to a pod is promised to whoever is there.
            let renewed = [member.uid.as_str(), place].map(|name| promises.renew(name, true, now));
            renewed.iter().any(Result::is_err)
        });
        Ok(Reply { wants_report: taken.wants_report, objects, ..Reply::default() })
    }

    /// What an agent misses, if it may ask for that.
    pub(super) fn missed(&self, welcome: &Welcome, event: &Event) -> Option<Missed> {
        let member = &welcome.member;
        self.at_home(&member.namespace, |household| {
            Missed::of(event, member, household.pods.state().into_iter())
        })?
    }

    /// What was promised about primaries; nothing, if nobody listens yet.
    pub(super) fn promises(&self) -> Option<MutexGuard<'_, Promises>> {
        self.promises.get().map(|promises| promises.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn at_home<T>(&self, namespace: &str, look: impl Fn(&Household) -> T) -> Option<T> {
        let households = self.households.read().unwrap_or_else(PoisonError::into_inner);
        let lives_here =
            |household: &&Household| household.namespace.as_deref().is_none_or(|only| only == namespace);
        households.iter().find(lives_here).map(look)
    }

    /// A channel was not opened.
    pub(super) fn refused(&self, refusal: Refusal, address: IpAddr, now: Instant) {
        let reason: &'static str = refusal.into();
        self.metrics.agents.refused(reason);
        self.complain(reason, now, || {
            tracing::warn!(%address, reason, "a channel was not opened: {refusal}");
        });
    }

    /// A message was not taken.
    pub(super) fn rejected(&self, reason: &'static str, peer: &Peer, address: IpAddr, now: Instant) {
        self.metrics.agents.heard(reason);
        self.complain(reason, now, || {
            tracing::warn!(%address, who = %peer.identity, reason, "a message was not taken");
        });
    }

    /// Everything is counted. In the log each reason stands once in a while: whoever knocks a thousand times a second must not
    /// bury what others have to say.
    fn complain(&self, reason: &'static str, now: Instant, complain: impl FnOnce()) {
        let mut complained = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due =
            complained.get(reason).is_none_or(|last| now.saturating_duration_since(*last) >= COMPLAIN_EVERY);
        if is_due {
            complained.insert(reason, now);
            complain();
        }
    }

    /// Somebody was sent away before anybody asked who it is.
    pub(super) fn turned_away(&self, address: IpAddr, now: Instant) {
        self.metrics.agents.refused(TOO_MANY);
        self.complain(TOO_MANY, now, || {
            tracing::warn!(%address, "too many connections of one address at a time");
        });
    }

    fn secret_of(&self, home: &Home) -> Option<Arc<Secret>> {
        self.at_home(&home.namespace, |household| household.secret_of(home))?
    }
}

impl Doorbell for Reception {
    fn credentials(&self, home: &Home) -> Option<Arc<Credentials>> {
        if home.trust_domain != self.trust_domain {
            return None;
        }
        let secret = self.secret_of(home)?;
        let version = secret.resource_version().unwrap_or_default();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, credentials)) = read.get(home)
            && *known == version
        {
            return Some(credentials.clone());
        }
        match credentials(&secret) {
            Ok(credentials) => {
                let credentials = Arc::new(credentials);
                // Clusters go, and nobody asks for them again.
                read.retain(|home, _| self.secret_of(home).is_some());
                read.insert(home.clone(), (version, credentials.clone()));
                Some(credentials)
            }
            Err(error) => {
                let (namespace, cluster) = (&home.namespace, &home.cluster);
                let error = kit::telemetry::chain(&error);
                self.complain("ownCertificate", Instant::now(), || {
                    tracing::warn!(%namespace, %cluster, %error, "the operator's own certificate cannot be used");
                });
                None
            }
        }
    }

    fn admits(&self, peer: &Peer) -> bool {
        // Whether it is there is asked with every message.
        peer.identity.role == Role::Sidecar && peer.identity.pod.is_some()
    }
}

fn credentials(secret: &Secret) -> Result<Credentials, channel::CredentialsError> {
    let text = |key: &str| pem::text(secret, key).unwrap_or_default();
    let key = SecretString::from(text(pem::KEY));
    Credentials::read(&text(pem::CERTIFICATE), &key, &text(pem::TRUSTED))
}
