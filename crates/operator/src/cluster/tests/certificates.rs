//! The certificates of a cluster: everybody has one, and nobody who is gone.

use api::names;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::convergence::spec;
use super::world::{CLUSTER, World};
use crate::objects::Kind;

fn bindings(world: &World) -> Vec<&str> {
    world.kubernetes.names_of(Kind::ValkeyCertificateBinding)
}

fn resized(spec_before: &str, spec_after: &str) -> World {
    let mut world = World::settled(spec_before);
    world.cluster.spec = super::world::cluster(spec_after).spec;
    world.cluster.metadata.generation = Some(2);
    world.come_to_rest(60).expect("should come to rest");
    world
}

#[test]
fn the_authority_comes_first_and_certificates_before_their_nodes() {
    let mut world = World::empty(&spec(1, 1));
    let mut written = world.pass().written;
    world.tick();
    written.extend(world.pass().written);
    let position = |what: &str| written.iter().position(|one| one.contains(what)).expect(what);
    assert!(
        position("ValkeyCertificateBundle gamma-mtls") < position("ValkeyCertificateBinding gamma-operator")
    );
    for node in ["gamma-0-0", "gamma-0-1"] {
        let binding = position(&format!("ValkeyCertificateBinding {node}"));
        assert!(binding < position(&format!("ValkeyNode {node}")), "{written:?}");
    }
}

#[test]
fn every_node_and_the_operator_have_a_certificate_of_their_own() {
    let world = World::settled(&spec(2, 1));
    assert_eq!(bindings(&world), ["gamma-0-0", "gamma-0-1", "gamma-1-0", "gamma-1-1", "gamma-operator"]);
    let of =
        |name: &str| world.kubernetes.object(Kind::ValkeyCertificateBinding, name).unwrap()["spec"].clone();
    let bundle = json!({"name": "gamma-mtls"});
    assert_eq!(
        of("gamma-0-1"),
        json!({"clusterRef": {"name": CLUSTER}, "certificates": [{
            "component": "sidecar", "bundleRef": bundle, "secretName": "internal-gamma-0-1-mtls",
            "pod": "valkey-gamma-0-1-0",
        }]})
    );
    assert_eq!(
        of("gamma-operator"),
        json!({"clusterRef": {"name": CLUSTER}, "certificates": [{
            "component": "operator", "bundleRef": bundle, "secretName": "internal-gamma-operator-mtls",
        }]})
    );
}

#[test]
fn pods_of_a_deployment_are_known_by_their_workload() {
    let world = World::settled("{shards: 1, replicas: 0, workloadType: Deployment}");
    let binding = world.kubernetes.object(Kind::ValkeyCertificateBinding, "gamma-0-0").unwrap();
    assert_eq!(binding["spec"]["certificates"][0]["pod"], "valkey-gamma-0-0");
}

#[test]
fn a_certificate_goes_after_its_node_and_not_before() {
    let world = resized(&spec(2, 1), &spec(1, 1));
    assert_eq!(bindings(&world), ["gamma-0-0", "gamma-0-1", "gamma-operator"]);
    let mut leaving = World::settled(&spec(2, 1));
    leaving.cluster.spec.shards = 1;
    leaving.cluster.metadata.generation = Some(2);
    for _ in 0..60 {
        leaving.pass();
        let nodes = leaving.kubernetes.names_of(Kind::ValkeyNode);
        assert!(nodes.iter().all(|node| bindings(&leaving).contains(node)), "{nodes:?}");
        leaving.tick();
    }
    assert_eq!(leaving.kubernetes.names_of(Kind::ValkeyNode).len(), 2);
}

#[test]
fn what_somebody_takes_away_is_made_again() {
    let mut world = World::settled(&spec(1, 1));
    world.kubernetes.delete(Kind::ValkeyCertificateBinding, "gamma-0-1");
    world.kubernetes.delete(Kind::ValkeyCertificateBundle, &names::mtls_bundle(CLUSTER));
    let passed = world.pass();
    assert_eq!(passed.written.len(), 2, "{passed:?}");
    assert!(world.come_to_rest(4).is_some());
}

#[test]
fn how_long_certificates_last_is_the_users_to_say() {
    let mut world = World::settled(&spec(1, 1));
    world.kubernetes.change(Kind::ValkeyCertificateBundle, &names::mtls_bundle(CLUSTER), |bundle| {
        bundle["spec"]["validForDays"] = json!(30);
        bundle["spec"]["rotationPolicy"] = json!({"settle": "10s"});
    });
    world.kubernetes.change(Kind::ValkeyCertificateBinding, "gamma-0-1", |binding| {
        binding["spec"]["certificates"][0]["validity"] = json!("7d");
        binding["spec"]["rotateBeforePercent"] = json!(50);
    });
    assert!(world.is_at_rest(), "{:?}", world.pass());
}

/// The containers of a node's pod that are started before the server.
fn init_containers(world: &World, node: &str) -> Vec<String> {
    let node = world.kubernetes.object(Kind::ValkeyNode, node).unwrap();
    let containers = node["spec"]["podTemplate"]["spec"]["initContainers"].as_array().unwrap();
    containers.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// A cluster as an operator without sidecars left it, and an operator with them.
fn older(spec: &str) -> World {
    let mut world = World::empty(spec);
    world.settings.sidecars = false;
    world.settings.agent_image = "agent:older".to_owned();
    world.come_to_rest(32).expect("should come to rest");
    world.settings.sidecars = true;
    world.settings.agent_image = "agent:newer".to_owned();
    world.come_to_rest(8).expect("should come to rest");
    world
}

fn pending(world: &mut World, node: &str, revision: Option<&str>) {
    let status = revision.map_or(json!({}), |revision| json!({"pendingWorkloadRevision": revision}));
    world.kubernetes.change(Kind::ValkeyNode, node, |node| node["status"] = status);
}

const OLD: [&str; 1] = ["valkey-init"];
const NEW: [&str; 2] = ["valkey-init", "valkey-sidecar"];

#[test]
fn a_node_is_made_once_its_certificate_is_there() {
    let mut world = World::empty(&spec(1, 1));
    world.pass();
    assert_eq!(world.kubernetes.names_of(Kind::ValkeyNode), Vec::<&str>::new());
    world.tick();
    world.pass();
    assert_eq!(world.kubernetes.names_of(Kind::ValkeyNode), ["gamma-0-0", "gamma-0-1"]);
}

#[test]
fn certificates_that_cannot_come_are_not_waited_for() {
    let mut world = World::empty(&spec(1, 1));
    world.pass();
    world.kubernetes.change(Kind::ValkeyCertificateBundle, &names::mtls_bundle(CLUSTER), |bundle| {
        bundle["status"] = json!({"phase": "WaitingForCA"});
    });
    world.pass();
    assert_eq!(world.kubernetes.names_of(Kind::ValkeyNode), ["gamma-0-0", "gamma-0-1"]);
}

#[test]
fn certificates_of_somebody_else_are_left_alone_and_hold_nothing_up() {
    let mut world = World::empty(&spec(1, 1));
    world.kubernetes.untouchable = [names::mtls_bundle(CLUSTER), "gamma-0-1".to_owned()].into();
    world.come_to_rest(32).expect("should come to rest");
    assert_eq!(bindings(&world), ["gamma-0-0", "gamma-operator"]);
    assert_eq!(world.kubernetes.names_of(Kind::ValkeyCertificateBundle), Vec::<&str>::new());
}

#[test]
fn a_certificate_that_somebody_adds_stays() {
    let mut world = World::settled(&spec(1, 1));
    world.kubernetes.change(Kind::ValkeyCertificateBinding, "gamma-0-1", |binding| {
        let mut other = binding["spec"]["certificates"][0].clone();
        other["component"] = json!("exporter");
        other["secretName"] = json!("theirs");
        binding["spec"]["certificates"].as_array_mut().unwrap().insert(0, other);
    });
    assert!(world.is_at_rest(), "{:?}", world.pass());
}

#[test]
fn pods_of_an_older_operator_stay_as_they_are_and_new_ones_get_what_is_new() {
    let mut world = older(&spec(1, 1));
    assert_eq!(init_containers(&world, "gamma-0-0"), OLD);
    world.cluster.spec.replicas = 2;
    world.cluster.metadata.generation = Some(2);
    world.come_to_rest(32).expect("should come to rest");
    assert_eq!(init_containers(&world, "gamma-0-1"), OLD);
    assert_eq!(init_containers(&world, "gamma-0-2"), NEW);
    // Also when the operator is replaced once more.
    world.settings.agent_image = "agent:newest".to_owned();
    assert!(world.is_at_rest(), "{:?}", world.pass());
}

#[test]
fn a_pod_that_is_restarted_anyhow_gets_the_newest_agent_and_no_other_does() {
    let mut world = older(&spec(1, 1));
    for node in ["gamma-0-0", "gamma-0-1"] {
        pending(&mut world, node, Some("changed"));
    }
    // The replica comes first. What is new is in its spec before its restart is allowed.
    world.pass();
    assert_eq!(
        (init_containers(&world, "gamma-0-1"), init_containers(&world, "gamma-0-0")),
        (NEW.map(String::from).to_vec(), OLD.map(String::from).to_vec())
    );
    let allowed = |world: &World| {
        world.kubernetes.object(Kind::ValkeyNode, "gamma-0-1").unwrap()["spec"]["workloadRevision"].clone()
    };
    assert_eq!(allowed(&world), json!(null));
    pending(&mut world, "gamma-0-1", Some("changed and new"));
    world.pass();
    assert_eq!(allowed(&world), json!("changed and new"));
    // The change is taken back: whose turn had not come stays as it was.
    for node in ["gamma-0-0", "gamma-0-1"] {
        pending(&mut world, node, None);
    }
    world.come_to_rest(8).expect("should come to rest");
    assert_eq!(init_containers(&world, "gamma-0-0"), OLD);
}

#[test]
fn a_roll_that_cannot_begin_renews_nobody() {
    // Without replicas and volumes, a restart would lose data.
    let mut world = older(&spec(1, 0));
    pending(&mut world, "gamma-0-0", Some("changed"));
    for _ in 0..4 {
        world.pass();
        world.tick();
    }
    assert_eq!(init_containers(&world, "gamma-0-0"), OLD);
    pending(&mut world, "gamma-0-0", None);
    world.come_to_rest(8).expect("should come to rest");
}
