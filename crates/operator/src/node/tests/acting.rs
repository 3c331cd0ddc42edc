//! The calls that a plan becomes, against an API server that records them.

use std::sync::Arc;

use api::{keys, names};
use k8s_openapi::api::core::v1::Container;
use kit::testing::{self, Answer, Call, failure, object};
use pretty_assertions::assert_eq;
use proto::agent::Setting;
use serde_json::json;

use super::super::act::{ConfigOutcome, Outcome, act};
use super::observing::Filled;
use super::pods;
use super::world::{World, node};
use crate::agents::tests::{FakeAgent, Says};

/// Perform the plan of a world; what came of it, and the calls.
async fn acted(world: &World, answer: fn(&Call) -> Answer) -> (Outcome, Vec<Call>) {
    let (client, calls) = testing::client(move |call| {
        let answer = answer(&call);
        async move { answer }
    });
    let context = Filled::default().context(client);
    let outcome = act(&world.desired, &world.node.spec, &world.observed, &world.plan(), &context).await;
    (outcome, calls.all())
}

/// `METHOD last-two-parts-of-the-path`.
fn lines(calls: &[Call]) -> Vec<String> {
    calls
        .iter()
        .map(|call| {
            let mut parts: Vec<&str> = call.path.rsplit('/').take(2).collect();
            parts.reverse();
            format!("{} {}", call.method, parts.join("/"))
        })
        .collect()
}

fn nobody_has_it(call: &Call) -> Answer {
    match call.method.as_str() {
        "GET" => failure(404, "NotFound", "not found"),
        _ => object(&json!({"metadata": {"name": "x"}})),
    }
}

#[tokio::test]
async fn before_something_is_created_its_name_is_looked_up() {
    let world = World::empty(node("persistence: {size: 1Gi}"));
    let (outcome, calls) = acted(&world, nobody_has_it).await;
    assert_eq!(
        lines(&calls),
        [
            "GET persistentvolumeclaims/valkey-alpha-data",
            "PATCH persistentvolumeclaims/valkey-alpha-data",
            "GET services/valkey-alpha",
            "PATCH services/valkey-alpha",
            "GET configmaps/valkey-alpha",
            "PATCH configmaps/valkey-alpha",
            "GET statefulsets/valkey-alpha",
            "PATCH statefulsets/valkey-alpha",
        ]
    );
    let writes: Vec<&Call> = calls.iter().filter(|call| call.method == "PATCH").collect();
    assert!(writes.iter().all(|call| call.parameter("fieldManager") == Some("valkey-operator/node")));
    assert!(writes.iter().all(|call| call.parameter("force").is_none()), "nothing is taken by force");
    assert!(calls.iter().all(|call| call.path.contains("/namespaces/team/")));
    assert_eq!(
        outcome.written,
        [
            "PersistentVolumeClaim valkey-alpha-data",
            "Service valkey-alpha",
            "ConfigMap valkey-alpha",
            "StatefulSet valkey-alpha",
        ]
    );
    assert!(outcome.error.is_none() && outcome.collision.is_none());
}

#[tokio::test]
async fn a_world_that_is_well_costs_no_call() {
    let (outcome, calls) = acted(&World::settled("persistence: {size: 1Gi}"), nobody_has_it).await;
    assert_eq!((lines(&calls), outcome.written), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_name_that_somebody_has_is_not_taken() {
    let (outcome, calls) = acted(&World::empty(node("{}")), |_| {
        let owner =
            json!({"apiVersion": "v1", "kind": "Release", "name": "theirs", "uid": "1", "controller": true});
        object(&json!({"apiVersion": "v1", "kind": "Service",
                       "metadata": {"name": "valkey-alpha", "ownerReferences": [owner]}}))
    })
    .await;
    assert_eq!(lines(&calls), ["GET services/valkey-alpha"]);
    let collision = outcome.collision.expect("should be seen");
    assert_eq!((collision.name.as_str(), collision.holder.as_str()), ("valkey-alpha", "Release theirs"));
}

#[tokio::test]
async fn a_kept_claim_of_the_same_node_is_used_again() {
    let world = World::empty(node("persistence: {size: 1Gi}"));
    let (outcome, calls) = acted(&world, |call| match (call.method.as_str(), call.path.contains("claims")) {
        ("GET", true) => object(&json!({"metadata": {"name": "valkey-alpha-data", "labels": {
            "app.kubernetes.io/managed-by": "valkey-operator", "app.kubernetes.io/instance": "alpha"}}})),
        _ => nobody_has_it(call),
    })
    .await;
    assert!(outcome.collision.is_none());
    assert_eq!(lines(&calls)[1], "PATCH persistentvolumeclaims/valkey-alpha-data");
}

#[tokio::test]
async fn the_first_refusal_ends_the_pass_and_is_told_in_the_api_servers_words() {
    let world = World::empty(node("{}"));
    let (outcome, calls) = acted(&world, |call| match call.method.as_str() {
        "PATCH" => failure(422, "Invalid", "Service \"valkey-alpha\" is invalid: spec.ports: too many"),
        _ => nobody_has_it(call),
    })
    .await;
    assert_eq!(lines(&calls), ["GET services/valkey-alpha", "PATCH services/valkey-alpha"]);
    let status = world.status_after(&outcome);
    let resources = status.condition(api::condition::NodeCondition::ResourcesReady).expect("should be told");
    assert_eq!((resources.status.as_str(), resources.reason.as_str()), ("False", "ApplyRefused"));
    assert_eq!(resources.message, "Service \"valkey-alpha\" is invalid: spec.ports: too many");
    let progressing = status.condition(api::condition::NodeCondition::Progressing).expect("should be told");
    assert_eq!((progressing.status.as_str(), progressing.reason.as_str()), ("False", "Blocked"));
    let events = super::super::events::between(&world.status, &status);
    assert_eq!(events.iter().map(|event| event.reason.as_str()).collect::<Vec<_>>(), ["ApplyRefused"]);
}

#[tokio::test]
async fn an_ailing_api_server_is_told_apart_from_a_refusal() {
    let world = World::empty(node("{}"));
    let (outcome, _) = acted(&world, |_| failure(500, "InternalError", "etcd is away")).await;
    let status = world.status_after(&outcome);
    let resources = status.condition(api::condition::NodeCondition::ResourcesReady).expect("should be told");
    assert_eq!(resources.reason, "NotHealthy");
    assert!(resources.message.contains("failed to get Service valkey-alpha"), "{}", resources.message);
}

#[tokio::test]
async fn a_pod_is_deleted_only_if_it_is_the_one_that_was_seen() {
    let mut world = World::settled("workloadType: Pod");
    world.pod_status(&pods::evicted("low on memory"));
    let meta = world.observed.pod.as_ref().expect("should have a pod").metadata.clone();
    let (outcome, calls) = acted(&world, nobody_has_it).await;
    assert_eq!(lines(&calls), ["DELETE pods/valkey-alpha-0"]);
    assert_eq!(
        calls[0].body["preconditions"],
        json!({"uid": meta.uid, "resourceVersion": meta.resource_version})
    );
    assert_eq!(outcome.pod_deleted, Some("the pod has ended"));
}

#[tokio::test]
async fn a_pod_that_changed_or_went_meanwhile_is_looked_at_again() {
    for answer in [(|_| failure(409, "Conflict", "changed")) as fn(&Call) -> Answer, |_| {
        failure(404, "NotFound", "gone")
    }] {
        let mut world = World::settled("workloadType: Pod");
        world.pod_status(&pods::evicted("low on memory"));
        let (outcome, _) = acted(&world, answer).await;
        assert!(outcome.pod_deleted.is_none() && outcome.error.is_none());
    }
}

/// The node of a cluster in whose pod an agent is, at this address.
fn beside_an_agent(address: &str) -> World {
    let mut world = World::settled("config: {hz: '10'}");
    let pod = Arc::make_mut(world.observed.pod.as_mut().expect("should have a pod"));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(keys::CLUSTER.to_owned(), "cache".to_owned());
    labels.insert(keys::INSTANCE.to_owned(), "cache-0-0".to_owned());
    pod.metadata.name = Some("valkey-cache-0-0-0".to_owned());
    let sidecar = Container { name: names::SIDECAR_CONTAINER.to_owned(), ..Container::default() };
    pod.spec.get_or_insert_default().init_containers.get_or_insert_default().push(sidecar);
    pod.status.get_or_insert_default().pod_ip = Some(address.to_owned());
    world.change_spec(|spec| spec.config = [("hz".to_owned(), "20".to_owned())].into());
    world
}

#[tokio::test]
async fn directives_are_set_by_the_agent_beside_the_server() {
    let agents = crate::heartbeats::tests::World::new().await;
    let words = "CONFIG SET failed - argument must be an integer";
    let taken = Says::Reply(Setting::Taken, "");
    let agent = FakeAgent::start("127.0.0.76", &agents.cache, "valkey-cache-0-0-0", taken).await;
    for (says, expected) in [
        (Says::Reply(Setting::Taken, ""), ConfigOutcome::Accepted),
        (Says::Reply(Setting::Refused, words), ConfigOutcome::Refused(words.to_owned())),
    ] {
        agent.says(says);
        let world = beside_an_agent("127.0.0.76");
        let (client, _) = testing::client(|call| {
            let answer = nobody_has_it(&call);
            async move { answer }
        });
        let context = Filled::default().context_with(client, agents.reception.clone());
        let outcome = act(&world.desired, &world.node.spec, &world.observed, &world.plan(), &context).await;
        assert_eq!(outcome.config, expected);
        assert_eq!(agent.heard(), [("hz".to_owned(), "20".to_owned())]);
    }
}

#[tokio::test]
async fn a_server_whose_agent_is_away_is_told_directly() {
    let (outcome, _) = acted(&beside_an_agent("127.0.0.77"), nobody_has_it).await;
    let ConfigOutcome::Failed(words) = &outcome.config else { panic!("{:?}", outcome.config) };
    assert!(words.contains("failed to connect to 127.0.0.77:6379"), "{words}");
}
