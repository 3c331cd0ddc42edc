//! Keeping the caches current and calling `reconcile` when something changed. Only objects with our label are watched,
//! and what nobody reads (managed fields) is dropped before it is stored.

use std::fmt::Debug;
use std::future::ready;
use std::hash::Hash;
use std::sync::Arc;

use api::keys;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use kit::metrics::Metrics;
use kube::api::Api;
use kube::runtime::controller::{self, Controller};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::context::{Caches, Context, Guarded};
use super::{KIND, on_error, reconcile};

/// Reconciles at the same time: enough to hide slow servers, few enough to be gentle with the API server.
const CONCURRENCY: u16 = 16;

type Changes<K> = BoxStream<'static, Result<K, watcher::Error>>;

/// Run the controller for one namespace, or for all, until `stop`.
pub async fn run(client: Client, namespace: Option<String>, metrics: Metrics, stop: CancellationToken) {
    let scope = Scope { client: client.clone(), namespace };
    let (stateful_sets, stateful_set_changes) = scope.labelled::<StatefulSet>();
    let (deployments, deployment_changes) = scope.labelled::<Deployment>();
    let (pods, pod_changes) = scope.labelled::<Pod>();
    let (services, service_changes) = scope.labelled::<Service>();
    let (config_maps, config_map_changes) = scope.labelled::<ConfigMap>();
    let (claims, claim_changes) = scope.labelled::<PersistentVolumeClaim>();
    let (nodes, node_changes) = scope.nodes();
    let caches =
        Caches { nodes: nodes.clone(), stateful_sets, deployments, pods, services, config_maps, claims };
    let reporter = Reporter { controller: keys::MANAGED_BY_VALUE.to_owned(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    let context = Context::new(client, caches, recorder, metrics);

    // The watches run in tasks of their own, which end with this function: a controller whose workers are all busy
    // does not look at its inputs, and workers may be waiting for just what a watch brings.
    let mut watches = JoinSet::new();
    let (known, known_nodes) = mpsc::unbounded_channel();
    let (called, calls) = mpsc::unbounded_channel();
    watches.spawn(tell_of_nodes(node_changes, known));
    watches.spawn(tell_of_objects(stateful_set_changes, context.clone(), called.clone()));
    watches.spawn(tell_of_objects(deployment_changes, context.clone(), called.clone()));
    watches.spawn(tell_of_objects(pod_changes, context.clone(), called.clone()));
    watches.spawn(tell_of_objects(service_changes, context.clone(), called.clone()));
    watches.spawn(tell_of_objects(config_map_changes, context.clone(), called.clone()));
    watches.spawn(tell_of_objects(claim_changes, context.clone(), called));
    // A reconcile that reads a cache before it is filled would see a world without objects.
    tokio::select! {
        () = stop.cancelled() => return,
        () = context.caches.wait_until_filled() => {}
    }

    let forgetting = context.clone();
    Controller::for_stream(received(known_nodes), nodes)
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .reconcile_on(received(calls))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(reconcile, |node, error, context| on_error(&node, error, &context), context)
        .for_each(|result| {
            if let Err(controller::Error::ObjectNotFound(gone)) = result {
                let gone = ObjectRef::new(&gone.name).within(gone.namespace.as_deref().unwrap_or_default());
                forgetting.queue.leave(&gone);
                forgetting.backoff.succeeded(&gone);
            }
            ready(())
        })
        .await;
}

fn received<T>(receiver: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> + Send
where
    T: Send + 'static,
{
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) })
}

/// Pass nodes on to the controller.
async fn tell_of_nodes(
    mut changes: Changes<Guarded>,
    tell: mpsc::UnboundedSender<Result<Guarded, watcher::Error>>,
) {
    while let Some(change) = changes.next().await {
        if let Err(error) = &change {
            tracing::warn!(error = %kit::telemetry::chain(error), "the watch of nodes failed and is being restarted");
        }
        if tell.send(change).is_err() {
            return;
        }
    }
}

/// Call the controller for the node that an object belongs to. A node that waits already is not called again, so that
/// the channel never holds more than one call per node.
async fn tell_of_objects<K>(
    mut changes: Changes<K>,
    context: Arc<Context>,
    call: mpsc::UnboundedSender<ObjectRef<Guarded>>,
) where
    K: Resource<DynamicType = ()> + Send + 'static,
{
    while let Some(change) = changes.next().await {
        let node = match &change {
            Ok(object) => instance(object),
            Err(error) => {
                let kind = K::kind(&());
                tracing::warn!(error = %kit::telemetry::chain(error), %kind, "a watch failed and is being restarted");
                None
            }
        };
        if let Some(node) = node
            && context.queue.enter(node.clone())
        {
            context.metrics.waiting(KIND, context.queue.len());
            if call.send(node).is_err() {
                return;
            }
        }
    }
}

/// Every object of a node has its name in a label, whoever owns the object: a pod belongs to its StatefulSet.
fn instance<K: Resource>(object: &K) -> Option<ObjectRef<Guarded>> {
    let name = object.labels().get(keys::INSTANCE)?;
    Some(ObjectRef::new(name).within(object.namespace()?.as_str()))
}

struct Scope {
    client: Client,
    namespace: Option<String>,
}

impl Scope {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn labelled<K>(&self) -> (Store<K>, Changes<K>)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let ours =
            watcher::Config::default().labels(&format!("{}={}", keys::MANAGED_BY, keys::MANAGED_BY_VALUE));
        reflect(watcher(self.api::<K>(), ours))
    }

    fn nodes(&self) -> (Store<Guarded>, Changes<Guarded>) {
        let api: Api<Guarded> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let (store, changes) = reflect(watcher(api, watcher::Config::default()));
        // Our own status writes come back as changes; only a new spec, new labels or a new object are news.
        let news = changes
            .predicate_filter(predicates::generation.combine(predicates::labels), PredicateConfig::default())
            .boxed();
        (store, news)
    }
}

fn reflect<K, S>(events: S) -> (Store<K>, Changes<K>)
where
    K: Resource + Clone + Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
    S: Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static,
{
    let (store, writer) = reflector::store();
    let changes = events
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .touched_objects()
        .boxed();
    (store, changes)
}

impl Caches {
    async fn wait_until_filled(&self) {
        // An error here means that the watch has ended with the program.
        let _ = futures::join!(
            self.nodes.wait_until_ready(),
            self.stateful_sets.wait_until_ready(),
            self.deployments.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.services.wait_until_ready(),
            self.config_maps.wait_until_ready(),
            self.claims.wait_until_ready(),
        );
    }
}
