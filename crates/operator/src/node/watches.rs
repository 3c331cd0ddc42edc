//! Keeping the caches current and calling `reconcile` when something changed. Only objects with our label are watched,
//! and what nobody reads (managed fields) is dropped before it is stored.

use std::fmt::Debug;
use std::future::ready;
use std::hash::Hash;
use std::sync::Arc;

use api::keys;
use futures::stream::BoxStream;
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
    let context = Context::new(client, caches.clone(), recorder, metrics);

    let watched = Controller::for_stream(node_changes, nodes)
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .watches_stream(stateful_set_changes, news(&context))
        .watches_stream(deployment_changes, news(&context))
        .watches_stream(pod_changes, news(&context))
        .watches_stream(service_changes, news(&context))
        .watches_stream(config_map_changes, news(&context))
        .watches_stream(claim_changes, news(&context))
        .graceful_shutdown_on(stop.cancelled_owned());
    watched
        .run(
            move |node, context| async move {
                // A reconcile that reads a cache before it is filled would see a world without objects.
                context.caches.wait_until_filled().await;
                reconcile(node, context).await
            },
            |node, error, context| on_error(&node, error, &context),
            context,
        )
        .for_each(|result| {
            if let Err(controller::Error::QueueError(error)) = &result {
                tracing::warn!(error = %kit::telemetry::chain(error), "a watch failed and is being restarted");
            }
            ready(())
        })
        .await;
}

/// Which node an object of kind `K` is news of.
fn news<K>(context: &Arc<Context>) -> impl Fn(K) -> Option<ObjectRef<Guarded>> + Send + Sync + 'static
where
    K: Resource,
{
    let context = context.clone();
    move |object| {
        let node = instance(&object)?;
        context.metrics.waiting(KIND, context.queue.enter(node.clone()));
        Some(node)
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
            self.stateful_sets.wait_until_ready(),
            self.deployments.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.services.wait_until_ready(),
            self.config_maps.wait_until_ready(),
            self.claims.wait_until_ready(),
        );
    }
}
