//! All controllers of one scope, around one set of caches: what several of them look at is watched once.

use std::future::ready;
use std::sync::Arc;

use api::{ValkeyCertificateBinding, ValkeyCluster, ValkeyNode, keys, names};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kit::metrics::Metrics;
use kube::core::DeserializeGuard;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::Store;
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::certificates::{self, Certificates};
use crate::heartbeats::{Household, Member, Reception};
use crate::hooks::AfterCommand;
use crate::references::References;
use crate::settings::Settings;
use crate::watch::{Caller, Changes, Scope, labelled_with, tell};
use crate::{cluster, node};

/// A StatefulSet that cannot make its pod says so nowhere else: no object changes.
const NO_POD_MADE: &str = "involvedObject.kind=StatefulSet,reason=FailedCreate";

/// Run every controller for one namespace, or for all, until `stop`.
pub async fn run(
    client: Client,
    namespace: Option<String>,
    settings: Settings,
    metrics: Metrics,
    after_command: AfterCommand,
    reception: Arc<Reception>,
    stop: CancellationToken,
) {
    let scope = Scope { client: client.clone(), namespace };
    let (stateful_sets, stateful_set_changes) = scope.labelled::<StatefulSet>();
    let (deployments, deployment_changes) = scope.labelled::<Deployment>();
    let (pods, pod_changes) = scope.labelled::<Pod>();
    let (services, service_changes) = scope.labelled::<Service>();
    let (config_maps, config_map_changes) = scope.labelled::<ConfigMap>();
    let (claims, claim_changes) = scope.labelled::<PersistentVolumeClaim>();
    let (secrets, secret_changes) = scope.labelled::<Secret>();
    let (budgets, budget_changes) = scope.labelled::<PodDisruptionBudget>();
    let (nodes, node_changes) = scope.guarded::<ValkeyNode>();
    let (clusters, cluster_changes) = scope.guarded::<ValkeyCluster>();

    let (call_node, node_queue, node_calls) = Caller::new(node::KIND, metrics.clone());
    let (call_cluster, cluster_queue, cluster_calls) = Caller::new(cluster::KIND, metrics.clone());
    let news = News { node: call_node, cluster: call_cluster.clone() };
    // The watches run in tasks of their own, which end with this function: a controller whose workers are all busy
    // does not look at its inputs, and workers may be waiting for just what a watch brings.
    let mut watches = JoinSet::new();
    watches.spawn(tell(stateful_set_changes, news.clone().of_object()));
    watches.spawn(tell(deployment_changes, news.clone().of_object()));
    watches.spawn(tell(pod_changes, news.clone().of_pod()));
    watches.spawn(tell(service_changes, news.clone().of_object()));
    watches.spawn(tell(config_map_changes, news.clone().of_object()));
    watches.spawn(tell(claim_changes, news.clone().of_object()));
    watches.spawn(tell(budget_changes, news.clone().of_object()));
    watches.spawn(tell(scope.selected::<Event>(NO_POD_MADE), news.clone().of_event()));
    let (node_known, known_nodes) = mpsc::unbounded_channel();
    let (cluster_known, known_clusters) = mpsc::unbounded_channel();
    watches.spawn(pass_on(news.clone().then_new_specs(node_changes), node_known));
    watches.spawn(pass_on(new_specs_and_orders(cluster_changes), cluster_known));

    let references = Arc::new(References::default());
    let recorder = recorder(&client);
    let certificates = Certificates::prepare(
        &scope,
        (secrets.clone(), references.clone()),
        &recorder,
        &metrics,
        &settings,
        call_cluster.clone(),
    );
    watches.spawn(tell(secret_changes, news.clone().of_secret(certificates.news.clone())));
    let node_caches = node::Caches {
        nodes: nodes.clone(),
        stateful_sets,
        deployments,
        pods: pods.clone(),
        services: services.clone(),
        config_maps,
        claims,
    };
    let (bundles, bindings) = certificates.stores();
    let household = news.household(&scope, (&pods, &secrets, &bindings));
    let cluster_caches =
        cluster::Caches { clusters, nodes, pods, services, secrets, budgets, bundles, bindings };
    // A reconcile that reads a cache before it is filled would see a world without objects.
    tokio::select! {
        () = stop.cancelled() => return,
        () = async { futures::join!(node_caches.wait_until_filled(), cluster_caches.wait_until_filled()); } => {}
    }
    reception.open(household);
    let node_context = node::Context::new(
        client.clone(),
        node_caches,
        recorder.clone(),
        metrics.clone(),
        (node_queue, reception.clone()),
    );
    let cluster_context = cluster::Context::new(
        client,
        cluster_caches,
        recorder,
        metrics,
        (cluster_queue, call_cluster, references),
        settings,
        (after_command, reception),
    );
    futures::join!(
        node::control(node_context, known_nodes, node_calls, stop.clone()),
        cluster::control(cluster_context, known_clusters, cluster_calls, stop.clone()),
        certificates.run(stop),
    );
}

fn recorder(client: &Client) -> Recorder {
    let reporter = Reporter { controller: keys::MANAGED_BY_VALUE.to_owned(), instance: None };
    Recorder::new(client.clone(), reporter)
}

/// What agents are known by.
type Known<'a> = (&'a Store<Pod>, &'a Store<Secret>, &'a Store<DeserializeGuard<ValkeyCertificateBinding>>);

/// Whom to call when an object changed.
#[derive(Clone)]
struct News {
    node: Caller<DeserializeGuard<ValkeyNode>>,
    cluster: Caller<DeserializeGuard<ValkeyCluster>>,
}

impl News {
    /// Every object of a node has its name in a label, whoever owns the object: a pod belongs to its StatefulSet. What
    /// belongs to a cluster and to none of its nodes is the cluster's own.
    fn of_object<K: Resource>(self) -> impl Fn(&K) {
        move |object| match labelled_with(object, keys::CLUSTER) {
            Some((namespace, cluster)) if labelled_with(object, keys::SHARD_INDEX).is_none() => {
                self.cluster.call(&namespace, cluster);
            }
            _ => self.call_node(object),
        }
    }

    /// A pod that is gone or was restarted is news for the cluster before its node has looked at it.
    fn of_pod(self) -> impl Fn(&Pod) {
        move |pod| {
            self.call_node(pod);
            self.call_cluster(pod);
        }
    }

    /// A Secret is somebody's who signs, too.
    fn of_secret(self, certificates: certificates::News) -> impl Fn(&Secret) {
        let of_object = self.of_object();
        move |secret| {
            of_object(secret);
            certificates.of_secret(secret);
        }
    }

    /// The pods whose agents are heard.
    fn household(self, scope: &Scope, (pods, secrets, bindings): Known<'_>) -> Household {
        Household {
            namespace: scope.namespace.clone(),
            pods: pods.clone(),
            secrets: secrets.clone(),
            bindings: bindings.clone(),
            news: Arc::new(self.of_agent()),
        }
    }

    /// What an agent tells is news for both, as what a pod tells is.
    fn of_agent(self) -> impl Fn(&Member) + Send + Sync {
        move |member| {
            self.node.call(&member.namespace, &member.node);
            self.cluster.call(&member.namespace, &member.cluster);
        }
    }

    /// Whether the StatefulSet is really a node's is for the controller to find out.
    fn of_event(self) -> impl Fn(&Event) {
        move |event| {
            let about = &event.involved_object;
            let node = about.name.as_deref().and_then(names::node_of_workload);
            if let (Some(namespace), Some(node)) = (&about.namespace, node) {
                self.node.call(namespace, node);
            }
        }
    }

    fn call_node<K: Resource>(&self, object: &K) {
        if let Some((namespace, node)) = labelled_with(object, keys::INSTANCE) {
            self.node.call(&namespace, node);
        }
    }

    fn call_cluster<K: Resource>(&self, object: &K) {
        if let Some((namespace, cluster)) = labelled_with(object, keys::CLUSTER) {
            self.cluster.call(&namespace, cluster);
        }
    }

    /// Clusters want to know everything of their nodes. For the node's own controller, its status writes come back as
    /// changes: only a new spec, new labels or a new object are news.
    fn then_new_specs(
        self,
        changes: Changes<DeserializeGuard<ValkeyNode>>,
    ) -> Changes<DeserializeGuard<ValkeyNode>> {
        changes
            .inspect(move |change| {
                if let Ok(node) = change {
                    self.call_cluster(node);
                }
            })
            .predicate_filter(predicates::generation.combine(predicates::labels), PredicateConfig::default())
            .boxed()
    }
}

/// A user's orders come as spec, labels or annotations; everything else is our own status.
fn new_specs_and_orders(
    changes: Changes<DeserializeGuard<ValkeyCluster>>,
) -> Changes<DeserializeGuard<ValkeyCluster>> {
    let news = predicates::generation.combine(predicates::labels).combine(predicates::annotations);
    changes.predicate_filter(news, PredicateConfig::default()).boxed()
}

/// Pass objects of our kinds on to their controller.
async fn pass_on<K>(changes: Changes<K>, known: mpsc::UnboundedSender<Result<K, watcher::Error>>)
where
    K: Resource<DynamicType = ()>,
{
    changes
        .for_each(|change| {
            if let Err(error) = &change {
                let kind = K::kind(&());
                tracing::warn!(error = %kit::telemetry::chain(error), %kind, "a watch failed and is being restarted");
            }
            // Nobody listens any more only when the program ends.
            let _ = known.send(change);
            ready(())
        })
        .await;
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;
    use kube::runtime::reflector::ObjectRef;

    use super::*;

    #[test]
    fn a_stateful_set_that_cannot_make_its_pod_is_news_for_its_node() {
        let (node, _, mut nodes) = Caller::new(node::KIND, Metrics::new().0);
        let (cluster, _, _clusters) = Caller::new(cluster::KIND, Metrics::new().0);
        let told = News { node, cluster }.of_event();
        let about = |name: &str| Event {
            involved_object: ObjectReference {
                name: Some(name.to_owned()),
                namespace: Some("team".to_owned()),
                ..ObjectReference::default()
            },
            ..Event::default()
        };
        told(&about("postgres"));
        told(&about("valkey-cache-0-1"));
        assert_eq!(nodes.try_recv(), Ok(ObjectRef::new("cache-0-1").within("team")));
        assert!(nodes.try_recv().is_err());
    }
}
