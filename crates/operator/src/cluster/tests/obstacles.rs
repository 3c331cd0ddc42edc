//! What nodes say of themselves reaches the status of their cluster, and decides what may be restarted.

use api::cluster::ClusterPhase;
use api::condition::ClusterCondition;
use api::names;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::super::observe::PodStage;
use super::super::topology::Place;
use super::convergence::spec;
use super::world::{CLUSTER, World};
use crate::objects::Kind;

/// A node reports this condition, and a template that waits if it has one.
fn report(world: &mut World, (shard, index): Place, condition: &Value, pending: Option<&str>) {
    let name = names::cluster_node(CLUSTER, shard, index);
    world.kubernetes.change(Kind::ValkeyNode, &name, |node| {
        node["metadata"]["generation"] = json!(2);
        let mut condition = condition.clone();
        condition["observedGeneration"] = json!(2);
        condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
        node["status"] = json!({"conditions": [condition], "pendingWorkloadRevision": pending});
    });
}

fn told(world: &World, condition: ClusterCondition) -> (String, String, String) {
    let status = world.status();
    let found = status.condition(condition).expect("should be told");
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn a_refused_directive_is_told_with_the_servers_words() {
    let mut world = World::settled(&format!("{}\nconfig: {{port: '1'}}", spec(2, 1)));
    assert_eq!(told(&world, ClusterCondition::ConfigurationWarning).1, "DirectiveIgnored");
    let words = "CONFIG SET failed (possibly related to argument 'maxmemory')";
    let refused =
        json!({"type": "LiveConfigApplied", "status": "False", "reason": "ServerRefused", "message": words});
    report(&mut world, (1, 1), &refused, None);
    world.pass();
    let (state, reason, message) = told(&world, ClusterCondition::ConfigurationWarning);
    assert_eq!((state.as_str(), reason.as_str()), ("True", "DirectiveRefused"));
    assert!(
        message.contains(words) && message.contains("gamma-1-1") && message.contains("port"),
        "{message}"
    );
    assert_eq!(world.phase(), Some(ClusterPhase::Ready), "the cluster serves on");

    // What was said of an earlier spec says nothing of this one.
    world.kubernetes.change(Kind::ValkeyNode, "gamma-1-1", |node| node["metadata"]["generation"] = json!(3));
    world.pass();
    assert_eq!(told(&world, ClusterCondition::ConfigurationWarning).1, "DirectiveIgnored");
}

#[test]
fn objects_that_the_api_server_refuses_block_a_roll() {
    let mut world = World::settled(&spec(1, 1));
    let words = "StatefulSet is invalid: must be less than or equal to memory limit";
    for (reason, expected) in
        [("ApplyRefused", "ApplyRefused"), ("NameCollision", "NameCollision"), ("InvalidSpec", "InvalidSpec")]
    {
        let refused =
            json!({"type": "ResourcesReady", "status": "False", "reason": reason, "message": words});
        report(&mut world, (0, 1), &refused, Some("next"));
        // The first pass allows the template, which the node then cannot write.
        world.pass();
        report(&mut world, (0, 1), &refused, Some("next"));
        world.pass();
        let (state, told, message) = told(&world, ClusterCondition::RollBlocked);
        assert_eq!((state.as_str(), told.as_str()), ("True", expected));
        assert_eq!(message, format!("gamma-0-1 stays as it is: {words}"));
    }
}

#[test]
fn what_keeps_a_silent_server_is_told() {
    let mut world = World::settled(&spec(1, 1));
    world.lose((0, 1));
    let stuck = json!({"type": "Ready", "status": "False", "reason": "Unschedulable", "message": "no room"});
    report(&mut world, (0, 1), &stuck, None);
    world.pass();
    let (state, _, message) = told(&world, ClusterCondition::Ready);
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("False", "the server of gamma-0-1 does not answer: no room")
    );
}

/// A container beside the server cannot start. The server has the data all the same.
#[test]
fn a_primary_that_serves_is_never_restarted_for_a_container_beside_it() {
    let stuck = json!({"type": "Ready", "status": "False", "reason": "CrashLooping", "message": "exporter"});
    for (replicas, step) in [(1, Some("handing shard 0 over to gamma-0-1")), (0, None)] {
        let mut world = World::settled(&spec(1, replicas));
        report(&mut world, (0, 0), &stuck, Some("next"));
        world.kubernetes.pods.get_mut(&(0, 0)).expect("should have a pod").facts.stage = PodStage::Started;
        world.pass();
        let orchestration = world.status().orchestration.expect("should be rolling");
        assert_eq!(orchestration.step.as_deref(), step);
        let node = world.kubernetes.object(Kind::ValkeyNode, "gamma-0-0").expect("should be there");
        assert_eq!(node["spec"]["workloadRevision"], Value::Null, "the template is not allowed yet");
    }
}

/// Where nobody leads, a replica that answers may have all there is left of its shard.
#[test]
fn the_last_copy_that_answers_is_not_restarted_for_a_container_beside_it() {
    let stuck = json!({"type": "Ready", "status": "False", "reason": "CrashLooping", "message": "exporter"});
    for (primary_is_silent, allowed) in [(true, Value::Null), (false, json!("next"))] {
        let mut world = World::settled(&spec(3, 1));
        if primary_is_silent {
            world.late_servers.insert((0, 0));
        }
        report(&mut world, (0, 1), &stuck, Some("next"));
        world.pass();
        world.pass();
        let node = world.kubernetes.object(Kind::ValkeyNode, "gamma-0-1").expect("should be there");
        assert_eq!(node["spec"]["workloadRevision"], allowed, "the primary is silent: {primary_is_silent}");
    }
}
