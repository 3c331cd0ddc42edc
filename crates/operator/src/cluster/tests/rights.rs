//! What the operator's own user may do: less where agents do the rest, and never too little.

use api::names;
use k8s_openapi::api::core::v1::Secret;
use pretty_assertions::assert_eq;
use valkey::acl::SystemUser;

use super::super::observe::Observed;
use super::super::topology::Topology;
use super::convergence::spec;
use super::world::{CLUSTER, NAMESPACE, World};
use crate::heartbeats::Agent;
use crate::objects::Kind;
use crate::settings::Settings;

/// What the operator's user may do on each server, and in the file that servers start with.
fn rules(world: &World) -> Vec<String> {
    let name = SystemUser::Operator.name();
    let secret: std::sync::Arc<Secret> =
        world.kubernetes.typed(Kind::Secret, &names::acl_secret(CLUSTER)).expect("should have users");
    let file =
        String::from_utf8_lossy(&secret.data.as_ref().expect("should have data")["users.acl"].0).into_owned();
    let line = file.lines().find(|line| line.starts_with(&format!("user {name} "))).expect("should be there");
    let after_hashes =
        line.split(' ').skip_while(|word| !word.starts_with('~')).collect::<Vec<_>>().join(" ");
    let listed = world.servers.values().map(|server| server.users.users[name].rules.clone());
    listed.chain([after_hashes]).collect()
}

fn is_everywhere(world: &World, wanted: &str) -> bool {
    let rules = rules(world);
    assert_eq!(rules.len(), world.servers.len() + 1);
    rules.iter().all(|rules| rules == wanted)
}

fn may_less(world: &World) -> bool {
    is_everywhere(world, &SystemUser::Operator.rules_beside_agents())
}

fn may_all(world: &World) -> bool {
    is_everywhere(world, SystemUser::Operator.rules())
}

/// Which pods there are: a restart makes another one.
fn pods(world: &World) -> Vec<String> {
    world.kubernetes.pods.values().map(|pod| pod.facts.uid.clone()).collect()
}

/// A cluster of which nothing exists yet.
fn with_agents_that(obey: Option<bool>) -> World {
    let mut world = World::empty(&spec(2, 1));
    world.obeys = obey;
    world
}

fn come_to_rest(world: &mut World) {
    world.come_to_rest(32).unwrap_or_else(|| panic!("should come to rest: {:#?}", world.status()));
}

#[test]
fn a_new_cluster_never_lets_the_operator_set_directives() {
    let mut world = with_agents_that(None);
    for _ in 0..32 {
        world.pass();
        world.tick();
        if !world.servers.is_empty() {
            assert!(may_less(&world));
        }
    }
    assert!(world.is_at_rest() && world.servers.len() == 4);
}

#[test]
fn rights_are_given_up_when_every_agent_obeys_and_nothing_restarts() {
    let mut world = with_agents_that(Some(false));
    come_to_rest(&mut world);
    let before = pods(&world);
    assert!(may_all(&world));
    // Nobody knows, which is no reason to change anything.
    world.obeys = None;
    assert!(world.is_at_rest());
    world.obeys = Some(true);
    come_to_rest(&mut world);
    assert!(may_less(&world));
    assert_eq!(pods(&world), before);
    // An operator that starts anew knows of nobody.
    world.obeys = None;
    assert!(world.is_at_rest());
    // Agents that cannot be reached, or older ones: rights come back, and nobody is locked out.
    world.obeys = Some(false);
    come_to_rest(&mut world);
    assert!(may_all(&world));
    assert_eq!(pods(&world), before);
}

#[test]
fn an_operator_without_agents_takes_its_rights_back() {
    let mut world = World::settled(&spec(1, 1));
    let before = pods(&world);
    assert!(may_less(&world));
    world.obeys = None;
    world.settings = Settings { sidecars: false, ..Settings::default() };
    come_to_rest(&mut world);
    assert!(may_all(&world));
    assert_eq!(pods(&world), before, "pods keep the agents that they have");
}

/// Whether the operator gives up its rights in what it sees.
fn gives_up(world: &mut World, observed: &Observed) -> bool {
    let (desired, topology) = (world.desired(), Topology::of(observed, NAMESPACE));
    let file = world.users(&desired, observed, &topology).file.expect("should have a file");
    let line = file.text.lines().find(|line| line.starts_with("user _operator ")).expect("should be there");
    !line.contains("+config|set") && !line.contains("+acl|load")
}

#[test]
fn one_server_without_an_agent_is_enough_to_keep_them() {
    type Change = fn(&mut Observed);
    fn one(observed: &mut Observed) -> &mut super::super::observe::ObservedNode {
        observed.nodes.get_mut(&(1, 1)).expect("should be there")
    }
    let without_agent: Change = |observed| {
        let mut node = one(observed).node.as_ref().clone();
        let template = node.spec.pod_template.as_mut().and_then(|template| template.spec.as_mut());
        let containers = template.expect("should have a template")["initContainers"].as_array_mut();
        containers.expect("should have containers").retain(|one| one["name"] != names::SIDECAR_CONTAINER);
        one(observed).node = node.into();
    };
    let cases: [(&str, Change, bool); 7] = [
        ("all well", |_| {}, true),
        ("one whose pod has none", |observed| one(observed).agent = Agent::Absent, false),
        ("one whose next pod has none", without_agent, false),
        ("one that does not obey", |observed| one(observed).obeys = Some(false), false),
        ("one that is not known", |observed| one(observed).obeys = None, true),
        ("one that is silent", |observed| one(observed).agent = Agent::Silent, true),
        (
            "one without a pod",
            |observed| {
                let node = one(observed);
                (node.pod, node.agent, node.obeys) = (None, Agent::Absent, None);
            },
            true,
        ),
    ];
    let mut world = World::settled(&spec(2, 1));
    for (what, change, expected) in cases {
        let mut observed = world.observe();
        change(&mut observed);
        assert_eq!(gives_up(&mut world, &observed), expected, "{what}");
    }
    // They are not given up as long as one has not said that it obeys.
    let mut world = with_agents_that(Some(false));
    come_to_rest(&mut world);
    world.obeys = Some(true);
    let mut observed = world.observe();
    one(&mut observed).obeys = None;
    assert!(!gives_up(&mut world, &observed));
    one(&mut observed).obeys = Some(true);
    assert!(gives_up(&mut world, &observed));
}
