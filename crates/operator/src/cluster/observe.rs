//! What there is: caches and the servers themselves, as plain data.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::certificates::{BindingPhase, BundlePhase};
use api::{ValkeyCertificateBinding, ValkeyCertificateBundle, ValkeyNode, keys, names};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt as _};
use proto::promises::AGREED_FOR;
use secrecy::SecretString;
use valkey::Tls;

use super::context::{Caches, Context};
use super::server::{self, Keys, ServerFacts, ServerView};
use super::validate::Desired;
use crate::heartbeats::{Agent, Death};
use crate::objects::{Collision, Kind, collision, controlled_by};

/// Servers asked at the same time.
const PARALLEL: usize = 16;
/// Half moved slots that are looked at in one pass.
const OPEN_SLOTS: usize = 128;

/// How long a machine may take to say that a pod has ended.
const OVERDUE_AFTER: Duration = Duration::from_secs(10);
/// An agent gives its word once nobody can count on what the one before it agreed to, is asked again within a second, and its start is
/// known by the second.
const AGENT_IS_NEW_FOR: Duration = AGREED_FOR.saturating_add(Duration::from_secs(2));

/// How far a pod is, as its machine tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodStage {
    #[default]
    Starting,
    /// Its server answers, and knows whether it leads: its own probes say so, whatever is beside it.
    Started,
    /// All of it serves.
    Ready,
}

/// The pod of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) address: Option<String>,
    pub(super) stage: PodStage,
    pub(super) terminating: bool,
    /// A pod of the node should have ended some time ago, and its machine has not said that it did.
    pub(super) overdue: bool,
    /// The agent in it has not been there for long: it gives nobody its word yet.
    pub(super) agent_is_new: bool,
    /// The zone of its machine.
    pub(super) zone: Option<String>,
}

impl PodFacts {
    /// All of it serves, and it stays.
    pub(super) fn serves(&self) -> bool {
        self.stage == PodStage::Ready && !self.terminating
    }
}

/// A node of the cluster, as it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObservedNode {
    pub(super) shard: u32,
    pub(super) index: u32,
    pub(super) node: Arc<ValkeyNode>,
    pub(super) pod: Option<PodFacts>,
    /// An older pod of the node is not gone yet.
    pub(super) another_pod_leaves: bool,
    /// A server in a pod of it knew every slot once, or died: whoever is in it now may not be the first.
    pub(super) has_past: bool,
    pub(super) agent: Agent,
    /// Whether its agent does what it is told, as far as anybody knows.
    pub(super) obeys: Option<bool>,
    /// What its agent told of the end of its server.
    pub(super) death: Option<Death>,
    pub(super) server: ServerView,
}

impl ObservedNode {
    pub(super) fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn address(&self) -> Option<&str> {
        self.pod.as_ref()?.address.as_deref()
    }

    /// Its controller has not looked at the newest spec yet: what its status says may be about an older one.
    pub(super) fn lags(&self) -> bool {
        let seen = self.node.status.as_ref().and_then(|status| status.observed_generation);
        self.node.metadata.generation.is_some() && seen != self.node.metadata.generation
    }
}

/// The authority of a cluster and what it signs.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificates {
    pub(super) bundle: Option<Arc<ValkeyCertificateBundle>>,
    pub(super) operator: Option<Arc<ValkeyCertificateBinding>>,
    /// By shard and index.
    pub(super) nodes: BTreeMap<(u32, u32), Arc<ValkeyCertificateBinding>>,
    /// Nodes whose certificate is in its Secret.
    pub(super) stored: BTreeSet<(u32, u32)>,
    /// Objects of these names are somebody else's, or cannot be read: they are left alone.
    pub(super) untouchable: BTreeSet<String>,
}

impl Certificates {
    /// Whether a node's certificate is still to come, as far as anybody knows. One that cannot come is not waited for: without it
    /// the agent is not heard, and the server serves all the same.
    pub(super) fn is_awaited(&self, place: (u32, u32)) -> bool {
        let bundle = self.bundle.as_ref().and_then(|bundle| bundle.status.as_ref()?.phase);
        let binding = self.nodes.get(&place).and_then(|binding| binding.status.as_ref()?.phase);
        !self.stored.contains(&place)
            && self.untouchable.is_empty()
            && !matches!(bundle, Some(BundlePhase::WaitingForCA | BundlePhase::Error))
            && binding != Some(BindingPhase::Error)
    }
}

/// What was seen of a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// By shard and index.
    pub(super) nodes: BTreeMap<(u32, u32), ObservedNode>,
    pub(super) headless_service: Option<Arc<Service>>,
    pub(super) client_service: Option<Arc<Service>>,
    pub(super) budget: Option<Arc<PodDisruptionBudget>>,
    pub(super) passwords: Option<Arc<Secret>>,
    pub(super) users_file: Option<Arc<Secret>>,
    pub(super) certificates: Certificates,
    pub(super) collisions: Vec<Collision>,
}

/// Listen to the agents of a cluster, and for how long what they tell counts; nothing, if one of them was not heard of late, or tells
/// of a server that does not answer.
pub(super) async fn listen(
    desired: &Desired,
    tls: Option<Tls>,
    context: &Context,
) -> Option<(Observed, Keys, Duration)> {
    let mut observed = from_caches(desired, context);
    let keys = Keys::new(&context.passwords.hold(desired, observed.passwords.as_deref()), tls);
    let now = Instant::now();
    let mut holds_for = Duration::MAX;
    for node in observed.nodes.values_mut() {
        let host = announced_host(node);
        let pod = node.pod.as_mut().filter(|pod| pod.address.is_some())?;
        let fresh = context.reception.reports.fresh(&pod.uid, now)?;
        holds_for = holds_for.min(fresh.for_another);
        let facts = server::told(&keys, &fresh.report)?;
        node.server = ServerView::Answering(Box::new(facts)).if_called(&host);
    }
    let zones: Vec<_> =
        observed.nodes.values().map(|node| zone_of(machine_of(node, context), context)).collect();
    let zones = futures::future::join_all(zones).await;
    for (node, zone) in observed.nodes.values_mut().zip(zones) {
        if let Some(pod) = &mut node.pod {
            pod.zone = zone;
        }
    }
    Some((observed, keys, holds_for))
}

/// Look at everything that belongs to a cluster.
pub(super) async fn observe(
    desired: &Desired,
    tls: Option<Tls>,
    slots_move: bool,
    context: &Context,
) -> (Observed, Keys) {
    let mut observed = from_caches(desired, context);
    let keys = Keys::new(&context.passwords.hold(desired, observed.passwords.as_deref()), tls);
    let questions: Vec<_> =
        observed.nodes.values().map(|node| question(node, &keys, slots_move, context)).collect();
    let asked: Vec<Answer> = futures::stream::iter(questions).buffer_unordered(PARALLEL).collect().await;
    for Answer { place, zone, server } in asked {
        if let Some(node) = observed.nodes.get_mut(&place) {
            node.server = server;
            if let Some(pod) = &mut node.pod {
                pod.zone = zone;
            }
        }
    }
    count_keys_in_open_slots(&mut observed, &keys).await;
    (observed, keys)
}

/// Whether a half moved slot can be closed depends on who holds keys of it. Usually there is none, and nobody is asked.
async fn count_keys_in_open_slots(observed: &mut Observed, keys: &Keys) {
    let facts = observed.nodes.values().filter_map(|node| node.server.facts());
    let open: BTreeSet<u16> = facts.flat_map(ServerFacts::open_slots).collect();
    let open: Vec<u16> = open.into_iter().take(OPEN_SLOTS).collect();
    if open.is_empty() {
        return;
    }
    let questions: Vec<_> = observed
        .nodes
        .iter()
        .filter(|(_, node)| node.server.facts().is_some())
        .filter_map(|(place, node)| Some((*place, node.address()?.to_owned())))
        .map(async |(place, address)| (place, server::count_keys(keys, &address, &open).await))
        .collect();
    let counted: Vec<_> = futures::stream::iter(questions).buffer_unordered(PARALLEL).collect().await;
    for (place, counted) in counted {
        // Without an answer the slot waits.
        if let (Some(node), Ok(counted)) = (observed.nodes.get_mut(&place), counted)
            && let ServerView::Answering(facts) = &mut node.server
        {
            facts.keys_in_open_slots = counted;
        }
    }
}

struct Answer {
    place: (u32, u32),
    zone: Option<String>,
    server: ServerView,
}

async fn question(node: &ObservedNode, keys: &Keys, slots_move: bool, context: &Context) -> Answer {
    let server = match node.address() {
        Some(address) => server::ask(keys, address, slots_move).await.if_called(&announced_host(node)),
        None => ServerView::NotAsked,
    };
    let zone = zone_of(machine_of(node, context), context).await;
    Answer { place: (node.shard, node.index), zone, server }
}

fn announced_host(node: &ObservedNode) -> String {
    names::announced_host(node.name(), node.node.metadata.namespace.as_deref().unwrap_or_default())
}

async fn zone_of(machine: Option<String>, context: &Context) -> Option<String> {
    context.zones.of(&context.client, &machine?).await
}

fn from_caches(desired: &Desired, context: &Context) -> Observed {
    let identity = &desired.identity;
    let (caches, cluster) = (&context.caches, identity.name.as_str());
    let mut observed = Observed::default();
    let mut foreign = Vec::new();
    let mut own = Own { namespace: &identity.namespace, uid: &identity.uid, foreign: &mut foreign };
    observed.headless_service = own.find(&caches.services, Kind::Service, &names::cluster_service(cluster));
    observed.client_service =
        own.find(&caches.services, Kind::Service, &names::cluster_client_service(cluster));
    observed.budget = own.find(&caches.budgets, Kind::PodDisruptionBudget, &names::cluster_budget(cluster));
    observed.passwords = own.find(&caches.secrets, Kind::Secret, &names::system_passwords_secret(cluster));
    observed.users_file = own.find(&caches.secrets, Kind::Secret, &names::acl_secret(cluster));
    observed.certificates = certificates(desired, caches);
    observed.nodes = nodes(desired, context, &mut foreign);
    observed.collisions = foreign;
    observed
}

fn certificates(desired: &Desired, caches: &Caches) -> Certificates {
    let identity = &desired.identity;
    let mut found = Certificates::default();
    if !desired.has_certificates {
        return found;
    }
    let bundle = names::mtls_bundle(&identity.name);
    found.bundle = ours(&caches.bundles, identity, &bundle, &mut found.untouchable);
    let operator = names::operator_binding(&identity.name);
    found.operator = ours(&caches.bindings, identity, &operator, &mut found.untouchable);
    for (shard, index) in desired.places() {
        let name = names::node_binding(&names::cluster_node(&identity.name, shard, index));
        // Only who else has the name: those that are ours are found below, also where nobody asks for them any more.
        let _ = ours(&caches.bindings, identity, &name, &mut found.untouchable);
    }
    for guarded in caches.bindings.state() {
        let is_ours = guarded.meta().namespace.as_deref() == Some(&identity.namespace)
            && controlled_by(guarded.meta(), Some(&identity.uid));
        let place = place(guarded.meta().labels.as_ref()).filter(|_| is_ours);
        if let (Some(place), Ok(binding)) = (place, &guarded.0) {
            if is_stored(caches, &identity.namespace, binding) {
                found.stored.insert(place);
            }
            found.nodes.insert(place, Arc::new(binding.clone()));
        }
    }
    found
}

/// An object of this name, if it is ours and can be read.
fn ours<K>(
    store: &Store<DeserializeGuard<K>>,
    identity: &super::build::Identity,
    name: &str,
    untouchable: &mut BTreeSet<String>,
) -> Option<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let guarded = store.get(&ObjectRef::new(name).within(&identity.namespace))?;
    match &guarded.0 {
        Ok(object) if controlled_by(object.meta(), Some(&identity.uid)) => Some(Arc::new(object.clone())),
        _ => {
            untouchable.insert(name.to_owned());
            None
        }
    }
}

/// Whether everything a binding asks for is there.
fn is_stored(caches: &Caches, namespace: &str, binding: &ValkeyCertificateBinding) -> bool {
    binding.spec.certificates.iter().all(|certificate| {
        let secret = caches.secrets.get(&ObjectRef::new(&certificate.secret_name).within(namespace));
        secret.is_some_and(|secret| controlled_by(secret.meta(), binding.uid().as_deref()))
    })
}

struct Own<'a> {
    namespace: &'a str,
    uid: &'a str,
    foreign: &'a mut Vec<Collision>,
}

impl Own<'_> {
    fn find<K>(&mut self, store: &Store<K>, kind: Kind, name: &str) -> Option<Arc<K>>
    where
        K: Resource<DynamicType = ()> + Clone + 'static,
    {
        let object = store.get(&ObjectRef::new(name).within(self.namespace))?;
        if controlled_by(object.meta(), Some(self.uid)) {
            Some(object)
        } else {
            self.foreign.push(collision(kind, name, object.meta()));
            None
        }
    }
}

fn nodes(
    desired: &Desired,
    context: &Context,
    foreign: &mut Vec<Collision>,
) -> BTreeMap<(u32, u32), ObservedNode> {
    let identity = &desired.identity;
    let pods = pods_by_node(desired, context);
    let reception = &context.reception;
    let now = Timestamp::now();
    let mut nodes = BTreeMap::new();
    for guarded in context.caches.nodes.state() {
        if guarded.meta().namespace.as_deref() != Some(&identity.namespace) {
            continue;
        }
        if !controlled_by(guarded.meta(), Some(&identity.uid)) {
            continue;
        }
        let (Ok(node), Some(place)) = (&guarded.0, place(guarded.meta().labels.as_ref())) else { continue };
        let name = guarded.name_any();
        let mine: &[Arc<Pod>] = pods.get(&name).map(Vec::as_slice).unwrap_or_default();
        let overdue = mine.iter().any(|pod| is_overdue(pod, now));
        let pod = mine.first().map(|pod| pod_facts(pod, overdue, now));
        nodes.insert(
            place,
            ObservedNode {
                shard: place.0,
                index: place.1,
                node: Arc::new(node.clone()),
                pod,
                another_pod_leaves: mine.len() > 1,
                has_past: mine.iter().filter_map(|pod| pod.status.as_ref()).any(has_past),
                agent: mine.first().map(|pod| reception.agent_in(pod, Instant::now())).unwrap_or_default(),
                obeys: mine
                    .first()
                    .and_then(|pod| reception.obeys(pod.metadata.uid.as_deref()?, Instant::now())),
                death: mine.first().and_then(|pod| death_in(pod, context)),
                server: ServerView::NotAsked,
            },
        );
    }
    for (shard, index) in desired.places() {
        let name = names::cluster_node(&identity.name, shard, index);
        let held = context.caches.nodes.get(&ObjectRef::new(&name).within(&identity.namespace));
        if let (Some(held), false) = (held, nodes.contains_key(&(shard, index))) {
            foreign.push(collision(Kind::ValkeyNode, &name, held.meta()));
        }
    }
    nodes
}

fn place(labels: Option<&BTreeMap<String, String>>) -> Option<(u32, u32)> {
    let labels = labels?;
    let number = |key: &str| labels.get(key)?.parse().ok();
    Some((number(keys::SHARD_INDEX)?, number(keys::NODE_INDEX)?))
}

/// The pods of each node: where there are two for a moment, the one that stays comes first.
fn pods_by_node(desired: &Desired, context: &Context) -> HashMap<String, Vec<Arc<Pod>>> {
    let identity = &desired.identity;
    let mut pods: HashMap<String, Vec<Arc<Pod>>> = HashMap::new();
    for pod in context.caches.pods.state() {
        let labels = pod.labels();
        if pod.meta().namespace.as_deref() != Some(&identity.namespace)
            || labels.get(keys::CLUSTER) != Some(&identity.name)
        {
            continue;
        }
        let Some(node) = labels.get(keys::INSTANCE) else { continue };
        pods.entry(node.clone()).or_default().push(pod.clone());
    }
    for mine in pods.values_mut() {
        mine.sort_by_key(|pod| pod.meta().deletion_timestamp.is_some());
    }
    pods
}

fn death_in(pod: &Pod, context: &Context) -> Option<Death> {
    context.reception.reports.death(pod.metadata.uid.as_deref()?, Instant::now())
}

/// The moment of deletion is the one by which it should have ended.
fn is_overdue(pod: &Pod, now: Timestamp) -> bool {
    pod.meta().deletion_timestamp.as_ref().is_some_and(|ends| now > ends.0 + OVERDUE_AFTER)
}

fn pod_facts(pod: &Pod, overdue: bool, now: Timestamp) -> PodFacts {
    let status = pod.status.as_ref();
    let ended = status
        .and_then(|status| status.phase.as_deref())
        .is_some_and(|phase| phase == "Failed" || phase == "Succeeded");
    PodFacts {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        resource_version: pod.resource_version().unwrap_or_default(),
        address: status.and_then(|status| status.pod_ip.clone()).filter(|_| !ended),
        stage: status.map(pod_stage).unwrap_or_default(),
        terminating: pod.meta().deletion_timestamp.is_some(),
        overdue,
        agent_is_new: status.is_some_and(|status| agent_is_new(status, now)),
        zone: None,
    }
}

/// One that is not there at all is not new either.
fn agent_is_new(status: &PodStatus, now: Timestamp) -> bool {
    let mut agents = status.init_container_statuses.iter().flatten();
    let agent = agents.find(|container| container.name == names::SIDECAR_CONTAINER);
    let running = agent.and_then(|agent| agent.state.as_ref()?.running.as_ref());
    running
        .and_then(|running| running.started_at.as_ref())
        .is_some_and(|begun| now < begun.0 + AGENT_IS_NEW_FOR)
}

fn pod_stage(status: &PodStatus) -> PodStage {
    let is_ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    if is_ready {
        PodStage::Ready
    } else if servers(status).any(|server| server.ready) {
        PodStage::Started
    } else {
        PodStage::Starting
    }
}

/// The startup probe of a server succeeds once it knows every slot.
fn has_past(status: &PodStatus) -> bool {
    servers(status).any(|server| server.started == Some(true) || server.restart_count > 0)
}

fn servers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let containers = status.container_statuses.iter().flatten();
    containers.filter(|container| container.name == names::SERVER_CONTAINER)
}

fn machine_of(node: &ObservedNode, context: &Context) -> Option<String> {
    let namespace = node.node.metadata.namespace.as_deref()?;
    let pod = context.caches.pods.get(&ObjectRef::new(&node.pod.as_ref()?.name).within(namespace))?;
    pod.spec.as_ref()?.node_name.clone()
}

/// A password in a Secret, if it is one line of text.
pub(super) fn password_of(secret: &Secret, key: &str) -> Option<SecretString> {
    let value = secret.data.as_ref()?.get(key)?;
    let text = std::str::from_utf8(&value.0).ok()?;
    (!text.is_empty()).then(|| SecretString::from(text))
}
