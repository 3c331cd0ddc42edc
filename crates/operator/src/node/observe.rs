//! What there is: caches, the few objects that are not cached, and the server itself, as plain data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::condition::NodeCondition;
use api::node::WorkloadType;
use api::{keys, names};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::api::{Api, ListParams};
use kube::runtime::reflector::{ObjectRef, Store};

use super::build::{Identity, Kind};
use super::context::Context;
use super::server::{self, ServerView};
use super::validate::{Desired, Storage};
use crate::objects::collision;
pub(super) use crate::objects::{Collision, controlled_by};

/// The workload, if there is one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Workload {
    StatefulSet(Arc<StatefulSet>),
    Deployment(Arc<Deployment>),
    /// A bare pod is its own workload.
    Pod(Arc<Pod>),
}

/// What was seen of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Observed {
    pub(super) workload: Option<Workload>,
    pub(super) pod: Option<Arc<Pod>>,
    pub(super) service: Option<Arc<Service>>,
    pub(super) config_map: Option<Arc<ConfigMap>>,
    /// Our own claim, or the external one.
    pub(super) claim: Option<Arc<PersistentVolumeClaim>>,
    /// Why the external claim could not be looked at.
    pub(super) claim_unreadable: Option<String>,
    pub(super) collisions: Vec<Collision>,
    /// Why Kubernetes' own controller could not make the pod.
    pub(super) pod_creation_failure: Option<String>,
    pub(super) server: ServerView,
    /// The ValkeyNode that has the address our server replicates from.
    pub(super) replica_of: Option<String>,
    /// What the server says comes from its agent. It was so a moment ago, which is good enough to know that nothing is to be done,
    /// and not good enough to do anything.
    pub(super) hearsay: Option<Hearsay>,
}

/// What an agent told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hearsay {
    /// For so long that counts, if nothing more is heard.
    pub(super) holds_for: Duration,
}

/// Who is asked how a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Its agent, if that was heard of late.
    Agent,
    /// The server itself.
    Server,
}

/// Look at everything that belongs to a node.
pub(super) async fn observe(
    desired: &Desired,
    spec: &api::ValkeyNodeSpec,
    before: &api::ValkeyNodeStatus,
    source: Source,
    context: &Context,
) -> Observed {
    let identity = &desired.identity;
    let mut observed = Observed::default();
    from_caches(desired, context, &mut observed);
    // It is not labelled by us, so no cache has it.
    if let Storage::External(claim) = &desired.storage {
        match kit::apply::get(&context.client, &identity.namespace, claim).await {
            Ok(found) => observed.claim = found.map(Arc::new),
            Err(error) => observed.claim_unreadable = Some(kit::telemetry::chain(&error)),
        }
    }
    if observed.pod.is_none() {
        observed.pod = unlabelled_pod(context, identity, observed.workload.as_ref()).await;
    }
    if observed.pod.is_none() {
        let since = not_ready_since(before);
        observed.pod_creation_failure =
            pod_creation_failure(context, identity, observed.workload.as_ref(), since).await;
    }
    if let Some(address) = observed.pod.as_deref().and_then(ready_address) {
        // With TLS, whether clients get in depends on a certificate that the agent does not see.
        let is_enough =
            source == Source::Agent && spec.access.as_ref().is_some_and(|access| access.tls.is_none());
        let told = is_enough.then(|| told(desired, observed.pod.as_deref(), context)).flatten();
        observed.hearsay = told.as_ref().map(|(_, hearsay)| *hearsay);
        observed.server = match told {
            Some((view, _)) => view,
            None => server::ask(context, identity, spec.access.as_ref(), address, &desired.config).await,
        };
    }
    if let ServerView::Answering(facts) = &observed.server {
        observed.replica_of =
            facts.replica_of.as_ref().map(|host| resolve(context, &identity.namespace, host));
    }
    observed
}

fn told(desired: &Desired, pod: Option<&Pod>, context: &Context) -> Option<(ServerView, Hearsay)> {
    let uid = pod?.meta().uid.as_deref()?;
    let fresh = context.reception.reports.fresh(uid, Instant::now())?;
    let view = server::told(&fresh.report, &desired.config)?;
    Some((view, Hearsay { holds_for: fresh.for_another }))
}

fn from_caches(desired: &Desired, context: &Context, observed: &mut Observed) {
    let identity = &desired.identity;
    let caches = &context.caches;
    let workload_name = identity.workload_name();
    let namespace = identity.namespace.as_str();
    let mut foreign = Vec::new();
    observed.service = mine(&caches.services, Kind::Service, &workload_name, identity, &mut foreign);
    observed.config_map = mine(&caches.config_maps, Kind::ConfigMap, &workload_name, identity, &mut foreign);
    observed.workload = match desired.workload_type {
        WorkloadType::StatefulSet => {
            mine(&caches.stateful_sets, Kind::StatefulSet, &workload_name, identity, &mut foreign)
                .map(Workload::StatefulSet)
        }
        WorkloadType::Deployment => {
            mine(&caches.deployments, Kind::Deployment, &workload_name, identity, &mut foreign)
                .map(Workload::Deployment)
        }
        WorkloadType::Pod => {
            mine(&caches.pods, Kind::Pod, &names::pod(&identity.name), identity, &mut foreign)
                .map(Workload::Pod)
        }
    };
    observed.pod = match &observed.workload {
        None => None,
        Some(Workload::Pod(pod)) => Some(pod.clone()),
        Some(Workload::StatefulSet(set)) => find(&caches.pods, &names::pod(&identity.name), namespace)
            .filter(|pod| controlled_by(pod.meta(), set.meta().uid.as_deref())),
        Some(Workload::Deployment(_)) => pod_of_deployment(&caches.pods, identity),
    };
    if matches!(desired.storage, Storage::Own(_)) {
        let name = names::data_claim(&identity.name);
        match find(&caches.claims, &name, namespace) {
            Some(claim) if is_my_claim(claim.meta(), identity) => observed.claim = Some(claim),
            Some(claim) => foreign.push(collision(Kind::PersistentVolumeClaim, &name, claim.meta())),
            None => {}
        }
    }
    observed.collisions = foreign;
}

fn find<K>(store: &Store<K>, name: &str, namespace: &str) -> Option<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(namespace))
}

fn mine<K>(
    store: &Store<K>,
    kind: Kind,
    name: &str,
    identity: &Identity,
    foreign: &mut Vec<Collision>,
) -> Option<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let object = find(store, name, &identity.namespace)?;
    if controlled_by(object.meta(), Some(&identity.uid)) {
        Some(object)
    } else {
        foreign.push(collision(kind, name, object.meta()));
        None
    }
}

/// A kept claim has no owner; the labels that only the operator sets say whose it is.
pub(super) fn is_my_claim(meta: &ObjectMeta, identity: &Identity) -> bool {
    let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    let unowned = meta.owner_references.iter().flatten().all(|owner| owner.controller != Some(true));
    label(keys::MANAGED_BY) == Some(keys::MANAGED_BY_VALUE)
        && label(keys::INSTANCE) == Some(&identity.name)
        && (unowned || controlled_by(meta, Some(&identity.uid)))
}

/// A Deployment's pods have names of their own: the youngest one that stays, or else the one that is going.
fn pod_of_deployment(pods: &Store<Pod>, identity: &Identity) -> Option<Arc<Pod>> {
    let prefix = format!("{}-", identity.workload_name());
    let mut candidates = pods.state();
    candidates.retain(|pod| {
        let meta = pod.meta();
        meta.namespace.as_deref() == Some(&identity.namespace)
            && meta.labels.as_ref().and_then(|labels| labels.get(keys::INSTANCE)) == Some(&identity.name)
            && meta.owner_references.iter().flatten().any(|owner| {
                owner.kind == "ReplicaSet"
                    && owner.controller == Some(true)
                    && owner.name.starts_with(&prefix)
            })
    });
    candidates.into_iter().max_by_key(|pod| {
        let meta = pod.meta();
        (meta.deletion_timestamp.is_none(), meta.creation_timestamp.clone(), meta.name.clone())
    })
}

/// Where to ask the server: only in a pod that Kubernetes holds for ready.
fn ready_address(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let ready = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let going = pod.meta().deletion_timestamp.is_some();
    status.pod_ip.as_deref().filter(|_| ready && !going)
}

/// Somebody may have taken our label from the pod: the caches lose it, the StatefulSet does not.
async fn unlabelled_pod(
    context: &Context,
    identity: &Identity,
    workload: Option<&Workload>,
) -> Option<Arc<Pod>> {
    let Some(Workload::StatefulSet(set)) = workload else { return None };
    let name = names::pod(&identity.name);
    let pod = kit::apply::get::<Pod>(&context.client, &identity.namespace, &name).await.ok()??;
    controlled_by(pod.meta(), set.meta().uid.as_deref()).then(|| Arc::new(pod))
}

/// Since when the node is without a ready pod; events from before speak of trouble that was mended.
fn not_ready_since(before: &api::ValkeyNodeStatus) -> Option<&Time> {
    let ready = before.condition(NodeCondition::Ready)?;
    (ready.status != "True").then_some(&ready.last_transition_time)
}

/// A StatefulSet says only in events why it cannot make its pod (quota, admission, a missing service account); a
/// Deployment has a condition for it.
async fn pod_creation_failure(
    context: &Context,
    identity: &Identity,
    workload: Option<&Workload>,
    since: Option<&Time>,
) -> Option<String> {
    match workload? {
        Workload::Deployment(deployment) => deployment
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")
            .and_then(|condition| condition.message.clone()),
        Workload::StatefulSet(set) => {
            let (since, uid) = (since?, set.meta().uid.as_deref()?);
            let events = Api::<Event>::namespaced(context.client.clone(), &identity.namespace);
            let filter = format!("involvedObject.uid={uid},reason=FailedCreate");
            let some = ListParams::default().fields(&filter).limit(100);
            let found = tokio::time::timeout(Duration::from_secs(5), events.list(&some)).await.ok()?.ok()?;
            found
                .items
                .into_iter()
                .filter(|event| event.last_timestamp.as_ref() >= Some(since))
                .max_by_key(|event| event.last_timestamp.clone())
                .and_then(|event| event.message)
        }
        Workload::Pod(_) => None,
    }
}

/// The ValkeyNode behind an address or a DNS name, else the address itself.
pub(super) fn resolve(context: &Context, namespace: &str, host: &str) -> String {
    let exists = |node: &str| context.caches.nodes.get(&ObjectRef::new(node).within(namespace)).is_some();
    // A pod's name ends in its Service's, which is the node's; a Service's name has nothing before it.
    let mut labels = host.split('.');
    let (first, second, third) = (labels.next(), labels.next(), labels.next());
    let of_label = |label: Option<&str>| label.and_then(names::node_of_workload).map(ToOwned::to_owned);
    let of_pod = of_label(first).and_then(|name| name.strip_suffix("-0").map(ToOwned::to_owned));
    // `<service>.<namespace>…` or `<pod>.<service>.<namespace>…`; a bare name is of our own namespace.
    let is_here = second.is_none_or(|label| label == namespace) || third == Some(namespace);
    let candidates = [of_label(second), of_label(first), of_pod];
    if is_here && let Some(node) = candidates.into_iter().flatten().find(|node| exists(node)) {
        return node;
    }
    let has_address = |node: &api::ValkeyNode| {
        node.status.as_ref().and_then(|status| status.pod_ip.as_deref()) == Some(host)
    };
    context
        .caches
        .nodes
        .find(|node| {
            node.meta().namespace.as_deref() == Some(namespace) && node.0.as_ref().is_ok_and(has_address)
        })
        .and_then(|node| node.meta().name.clone())
        .unwrap_or_else(|| host.to_owned())
}
