//! What is found in the caches: our own objects, those of others as collisions, and the right pod among several.

use std::sync::Arc;

use api::ValkeyNode;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::metrics::Metrics;
use kit::testing::{self, failure, object};
use kube::Client;
use kube::core::DeserializeGuard;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::{reflector, watcher};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::super::build::Kind;
use super::super::context::{Caches, Context};
use super::super::observe::{Observed, Source, Workload, observe, resolve};
use super::world::{World, at, node};
use super::{kubernetes, pods};
use crate::heartbeats::Reception;
use crate::watch::Queue;

/// What the caches hold.
#[derive(Clone, Default)]
pub(super) struct Filled {
    nodes: Vec<ValkeyNode>,
    stateful_sets: Vec<StatefulSet>,
    deployments: Vec<Deployment>,
    pods: Vec<Pod>,
    services: Vec<Service>,
    config_maps: Vec<ConfigMap>,
    claims: Vec<PersistentVolumeClaim>,
}

impl Filled {
    /// Everything of a world, with a pod that cannot be asked.
    fn with(world: &World) -> Self {
        let observed = &world.observed;
        let mut filled = Self {
            services: observed.service.as_deref().cloned().into_iter().collect(),
            config_maps: observed.config_map.as_deref().cloned().into_iter().collect(),
            claims: observed.claim.as_deref().cloned().into_iter().collect(),
            pods: observed.pod.iter().map(|pod| pods::with_status(pod, &pods::running_not_ready())).collect(),
            ..Self::default()
        };
        match &observed.workload {
            Some(Workload::StatefulSet(set)) => filled.stateful_sets.push(set.as_ref().clone()),
            Some(Workload::Deployment(deployment)) => filled.deployments.push(deployment.as_ref().clone()),
            Some(Workload::Pod(_)) | None => {}
        }
        filled
    }

    pub(super) fn context(self, client: Client) -> Arc<Context> {
        let reception = Arc::new(Reception::new("valkey.local", Metrics::new().0));
        self.context_with(client, reception)
    }

    /// With agents that are known.
    pub(super) fn context_with(self, client: Client, reception: Arc<Reception>) -> Arc<Context> {
        let nodes = self.nodes.into_iter().map(|node| DeserializeGuard(Ok(node))).collect();
        let caches = Caches {
            nodes: store(nodes),
            stateful_sets: store(self.stateful_sets),
            deployments: store(self.deployments),
            pods: store(self.pods),
            services: store(self.services),
            config_maps: store(self.config_maps),
            claims: store(self.claims),
        };
        let reporter = Reporter { controller: "test".to_owned(), instance: None };
        let recorder = Recorder::new(client.clone(), reporter);
        let metrics = Metrics::new().0;
        Context::new(client, caches, recorder, metrics, (Queue::default(), reception))
    }
}

fn store<K>(objects: Vec<K>) -> reflector::Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    let (reader, mut writer) = reflector::store();
    for object in objects {
        writer.apply_watcher_event(&watcher::Event::Apply(object));
    }
    reader
}

async fn seen(world: &World, filled: Filled) -> Observed {
    let (client, _) = testing::client(|_| async { failure(404, "NotFound", "not found") });
    observe(&world.desired, &world.node.spec, &world.status, Source::Agent, &filled.context(client)).await
}

/// Names of everything that was found.
fn found(observed: &Observed) -> (bool, bool, bool, bool, Option<&str>) {
    (
        observed.service.is_some(),
        observed.config_map.is_some(),
        observed.claim.is_some(),
        observed.workload.is_some(),
        observed.pod.as_ref().and_then(|pod| pod.metadata.name.as_deref()),
    )
}

#[tokio::test]
async fn our_own_objects_are_found() {
    for (kind, pod) in
        [("StatefulSet", "valkey-alpha-0"), ("Deployment", "valkey-alpha-5d4f-x7"), ("Pod", "valkey-alpha-0")]
    {
        let world = World::settled(&format!("workloadType: {kind}\npersistence: {{size: 1Gi}}"));
        let observed = seen(&world, Filled::with(&world)).await;
        assert_eq!(found(&observed), (true, true, true, true, Some(pod)), "{kind}");
        assert_eq!(observed.collisions, []);
    }
}

#[tokio::test]
async fn objects_of_a_namesake_that_was_deleted_are_not_ours() {
    let world = World::settled("persistence: {mode: enabled, size: 1Gi, reclaimPolicy: Delete}");
    let mut reborn = world.clone();
    reborn.node.metadata.uid = Some("uid-of-another-alpha".to_owned());
    let reborn = World::empty(reborn.node);
    let observed = seen(&reborn, Filled::with(&world)).await;
    assert_eq!(found(&observed), (false, false, false, false, None));
    let kinds: Vec<Kind> = observed.collisions.iter().map(|collision| collision.kind).collect();
    assert_eq!(kinds, [Kind::Service, Kind::ConfigMap, Kind::StatefulSet, Kind::PersistentVolumeClaim]);
    assert_eq!(observed.collisions[0].holder, "ValkeyNode alpha");
}

#[tokio::test]
async fn a_kept_claim_is_found_again_by_its_labels() {
    let world = World::settled("persistence: {size: 1Gi}");
    let mut reborn = world.node.clone();
    reborn.metadata.uid = Some("uid-of-another-alpha".to_owned());
    let reborn = World::empty(reborn);
    let claims = Filled::with(&world).claims;
    let observed = seen(&reborn, Filled { claims: claims.clone(), ..Filled::default() }).await;
    assert!(observed.claim.is_some() && observed.collisions.is_empty());
    let mut of_another = claims;
    let labels = of_another[0].metadata.labels.as_mut().expect("should have labels");
    labels.insert("app.kubernetes.io/instance".to_owned(), "gamma".to_owned());
    let observed = seen(&reborn, Filled { claims: of_another, ..Filled::default() }).await;
    assert!(observed.claim.is_none());
    assert_eq!(observed.collisions.len(), 1);
}

#[tokio::test]
async fn a_pod_that_another_stateful_set_made_is_not_ours() {
    let world = World::settled("{}");
    let mut filled = Filled::with(&world);
    let owners = filled.pods[0].metadata.owner_references.as_mut().expect("should have an owner");
    owners[0].uid = "uid-of-an-older-set".to_owned();
    assert!(seen(&world, filled).await.pod.is_none());
}

#[tokio::test]
async fn of_a_deployments_pods_the_youngest_that_stays_counts() {
    let world = World::settled("workloadType: Deployment");
    let mut filled = Filled::with(&world);
    let pod = |name: &str, second: i64, going: bool| {
        let mut pod = filled.pods[0].clone();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.creation_timestamp = Some(Time(at(second)));
        if going {
            pods::terminating(&mut pod);
        }
        pod
    };
    let (old, young, going) = (pod("old", 1, false), pod("young", 2, false), pod("going", 3, true));
    filled.pods = vec![going.clone(), young, old];
    assert_eq!(found(&seen(&world, filled.clone()).await).4, Some("young"));
    filled.pods = vec![going];
    assert_eq!(found(&seen(&world, filled.clone()).await).4, Some("going"));
    // A pod of another node's Deployment has another name in its label.
    let labels = filled.pods[0].metadata.labels.as_mut().expect("should have labels");
    labels.insert("app.kubernetes.io/instance".to_owned(), "gamma".to_owned());
    assert_eq!(found(&seen(&world, filled).await).4, None);
}

#[tokio::test]
async fn an_external_claim_is_read_missing_or_unreadable() {
    let world = World::settled("persistence: {mode: external, existingClaim: theirs}");
    let claim = serde_json::to_value(kubernetes::claim_of_somebody("theirs")).expect("should be JSON");
    for (code, exists, unreadable) in [(200, true, false), (404, false, false), (500, false, true)] {
        let claim = claim.clone();
        let (client, calls) = testing::client(move |_| {
            let answer = match code {
                200 => object(&claim),
                404 => failure(404, "NotFound", "words"),
                code => failure(code, "InternalError", "words"),
            };
            async move { answer }
        });
        let context = Filled { claims: Vec::new(), ..Filled::with(&world) }.context(client);
        let observed =
            observe(&world.desired, &world.node.spec, &world.status, Source::Agent, &context).await;
        assert_eq!(
            (observed.claim.is_some(), observed.claim_unreadable.is_some()),
            (exists, unreadable),
            "{code}"
        );
        assert_eq!(calls.all()[0].path, "/api/v1/namespaces/team/persistentvolumeclaims/theirs");
    }
}

#[tokio::test]
async fn why_a_stateful_set_has_no_pod_is_read_from_its_newest_event() {
    let mut world = World::settled("{}");
    let since =
        |second: u32| format!("2026-11-15T20:30:{second:02}Z").parse().map(Time).expect("should be a time");
    let ready = world.status.conditions.iter_mut().find(|one| one.type_ == "Ready").expect("should be there");
    (ready.status, ready.last_transition_time) = ("False".to_owned(), since(3));
    let (client, calls) = testing::client(|_| async {
        let event = |second: u32, message: &str| {
            json!({"metadata": {"name": message}, "involvedObject": {}, "message": message,
                   "lastTimestamp": format!("2026-11-15T20:30:{second:02}Z")})
        };
        object(&json!({"apiVersion": "v1", "kind": "EventList", "metadata": {},
                       "items": [event(1, "old"), event(9, "exceeded quota"), event(5, "older")]}))
    });
    let context = Filled { pods: Vec::new(), ..Filled::with(&world) }.context(client);
    let observed = observe(&world.desired, &world.node.spec, &world.status, Source::Agent, &context).await;
    assert_eq!(observed.pod_creation_failure.as_deref(), Some("exceeded quota"));
    let all = calls.all();
    let list = all.iter().find(|call| call.path.ends_with("/events")).expect("should ask for events");
    let filter = list.parameter("fieldSelector").map(ToOwned::to_owned);
    assert_eq!(filter.as_deref(), Some("involvedObject.uid=uid-of-StatefulSet,reason=FailedCreate"));

    // What went wrong before the pod was last ready is mended.
    let ready = world.status.conditions.iter_mut().find(|one| one.type_ == "Ready").expect("should be there");
    ready.last_transition_time = since(30);
    let observed = observe(&world.desired, &world.node.spec, &world.status, Source::Agent, &context).await;
    assert_eq!(observed.pod_creation_failure, None);
}

#[tokio::test]
async fn a_primary_is_named_by_its_node_in_the_same_namespace() {
    let named = |name: &str, namespace: &str, address: &str| {
        let mut node = node("{}");
        node.metadata.name = Some(name.to_owned());
        node.metadata.namespace = Some(namespace.to_owned());
        node.status = Some(api::ValkeyNodeStatus { pod_ip: Some(address.to_owned()), ..Default::default() });
        node
    };
    let nodes = vec![
        named("gamma", "team", "10.0.0.1"),
        named("gamma-0", "team", "10.0.0.2"),
        named("delta", "elsewhere", "10.0.0.3"),
    ];
    let (client, _) = testing::client(|_| async { failure(404, "NotFound", "not found") });
    let context = Filled { nodes, ..Filled::default() }.context(client);
    for (host, expected) in [
        ("10.0.0.1", "gamma"),
        ("valkey-gamma.team.svc.cluster.local", "gamma"),
        ("valkey-gamma-0.valkey-gamma.team.svc", "gamma"),
        ("valkey-gamma-0.team.svc", "gamma-0"),
        ("valkey-gamma", "gamma"),
        ("valkey-gamma.valkey-office.svc", "valkey-gamma.valkey-office.svc"),
        ("valkey-gamma.elsewhere.svc", "valkey-gamma.elsewhere.svc"),
        ("valkey-gamma-0-0.valkey-gamma-0.team.svc", "gamma-0"),
        ("10.0.0.3", "10.0.0.3"),
        ("10.9.9.9", "10.9.9.9"),
        ("valkey-delta.elsewhere.svc", "valkey-delta.elsewhere.svc"),
    ] {
        assert_eq!(resolve(&context, "team", host), expected, "{host}");
    }
}
