//! Slots are given to servers while others are still on their way, and that never ends in anything but a cluster.

use std::time::Duration;

use pretty_assertions::assert_eq;
use valkey::slots;

use super::super::command::{Command, Order};
use super::super::server::ServerView;
use super::super::topology::Place;
use super::convergence::{assert_rests, spec};
use super::kubernetes;
use super::world::World;

const KEPT: &str = "shards: 3\nreplicas: 1\npersistence: {size: 1Gi}";

/// Some passes in a world whose other servers are late.
fn with_late(spec: &str, late: &[Place]) -> World {
    let mut world = World::empty(spec);
    world.late_servers.extend(late);
    assert_eq!(world.come_to_rest(6), None, "it cannot be ready without {late:?}");
    world
}

fn becomes_whole(mut world: World) {
    world.late_servers.clear();
    assert!(world.come_to_rest(40).is_some(), "{:#?}\n{:#?}", world.status(), world.servers);
    assert_rests(&mut world);
    world.assert_no_slot_is_owned_twice();
}

#[test]
fn a_first_node_owns_its_slots_before_the_others_are_there() {
    let world = with_late(&spec(3, 1), &[(1, 0), (2, 1)]);
    let shares = slots::initial(3);
    assert_eq!(world.server((0, 0)).slots(), shares[0]);
    assert_eq!(world.server((2, 0)).slots(), shares[2]);
    assert!(world.server((1, 0)).slots().is_empty(), "it does not answer");
    let introduced = world
        .servers
        .values()
        .any(|one| world.servers.values().any(|other| one.id != other.id && one.knows(&other.id)));
    assert!(!introduced, "whoever is introduced early can be given no epoch: {:#?}", world.servers);
    becomes_whole(world);
}

#[test]
fn nobody_is_given_slots_early_where_a_volume_may_hold_another_past() {
    let world = with_late(KEPT, &[(1, 0)]);
    assert!(world.servers.values().all(|server| server.slots().is_empty()), "{:#?}", world.servers);
    becomes_whole(world);
}

/// Whoever is silent may have all there is: the operator knows nothing of what was before, and the others do not answer.
#[test]
fn nobody_is_given_slots_early_where_somebody_has_a_past() {
    let others = [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
    for silent in [&others[..], &others[2..3]] {
        let mut world = World::settled(&spec(3, 1));
        world.servers.values_mut().for_each(|server| server.has_keys = true);
        world.cluster.status = None;
        world.lose((0, 0));
        world.late_servers.extend(silent);
        for _ in 0..6 {
            // They vote, but nobody is told.
            world.pass();
            kubernetes::tick(&mut world);
        }
        assert!(world.server((0, 0)).slots().is_empty(), "{silent:?}: {:#?}", world.servers);
        world.late_servers.clear();
        assert!(world.come_to_rest(60).is_some(), "{silent:?}: {:#?}", world.status());
        assert!(world.servers.values().all(|server| server.has_keys), "{silent:?}: {:#?}", world.servers);
    }
}

/// One server alone would serve all slots without a copy of anything.
#[test]
fn nobody_is_given_slots_early_who_would_serve_alone() {
    let world = with_late(&spec(1, 2), &[(0, 1)]);
    assert!(world.servers.values().all(|server| server.slots().is_empty()), "{:#?}", world.servers);
    becomes_whole(world);
}

/// Whoever is late may have been given slots by the spec before: its share is nobody else's by another one.
#[test]
fn another_number_of_shards_in_between_leads_to_that_number() {
    for (before, after, claimed) in [
        (3, 2, false),
        (3, 1, false),
        (3, 5, false),
        (2, 3, false),
        (6, 4, false),
        (2, 3, true),
        (3, 5, true),
    ] {
        let mut world = with_late(&spec(before, 1), &[(before - 1, 0)]);
        if claimed {
            assert!(!world.server((0, 0)).slots().is_empty());
            world.late_servers = [(0, 0)].into();
        }
        world.cluster.spec.shards = after;
        world.cluster.metadata.generation = Some(2);
        world.pass();
        world.tick();
        world.pass();
        world.assert_no_slot_is_owned_twice();
        let summary = |world: &World| world.status().summary.map(|summary| summary.shards);
        world.late_servers.clear();
        assert!(world.come_to_rest(60).is_some(), "{before} to {after}: {:#?}", world.status());
        assert_eq!(summary(&world), Some(format!("{after}/{after}")), "{before} to {after}");
        becomes_whole(world);
    }
}

/// Slots that were given to a name nobody has any more are given again, whenever that happens.
#[test]
fn a_server_that_dies_while_the_cluster_is_made_holds_nothing_up() {
    let shapes = [(3, 1, (0, 0)), (3, 1, (1, 1)), (3, 1, (2, 0)), (2, 2, (0, 0)), (2, 2, (1, 1))];
    for (passes, (shards, replicas, place)) in (1..10).flat_map(|passes| shapes.map(|shape| (passes, shape)))
    {
        let mut world = World::empty(&spec(shards, replicas));
        for _ in 0..passes {
            world.pass();
            world.tick();
        }
        if !world.servers.contains_key(&place) {
            continue;
        }
        world.lose(place);
        for _ in 0..20 {
            let orders = world.pass().orders;
            let takeovers = orders.iter().filter(|order| matches!(order, Order::Failover(_))).count();
            assert!(takeovers <= 1, "two at once would claim the same epoch: {orders:?}");
            world.tick();
        }
        assert!(
            world.come_to_rest(60).is_some(),
            "{place:?} of {shards} × {replicas} after {passes}: {:#?}\n{:#?}",
            world.status(),
            world.servers
        );
        world.assert_no_slot_is_owned_twice();
    }
}

/// An owner greets once more whoever knows it and has not heard of its slots, and nobody else.
#[test]
fn slots_are_told_of_at_once() {
    let mut world = World::settled(&spec(3, 1));
    let greeted = |world: &mut World| -> Vec<Command> {
        let observed = world.observe();
        world
            .plan_for(&observed)
            .trifles
            .into_iter()
            .filter(|command| matches!(command.order, Order::Meet(_)))
            .collect()
    };
    assert_eq!(greeted(&mut world), [], "everybody knows everything");

    let owner = world.server((1, 0)).id.clone();
    for listener in [(0, 0), (2, 1)] {
        world.servers.get_mut(&listener).expect("should be there").unhear(&owner);
    }
    let expected: Vec<Command> = [(0, 0), (2, 1)]
        .iter()
        .map(|listener| Command { at: (1, 0), order: Order::Meet(world.server(*listener).address.clone()) })
        .collect();
    assert_eq!(greeted(&mut world), expected);

    // One that runs for long would take it for something else.
    let mut observed = world.observe();
    for node in observed.nodes.values_mut() {
        let ServerView::Answering(facts) = &mut node.server else { panic!("should answer") };
        facts.uptime = Some(Duration::from_mins(1));
    }
    assert_eq!(world.plan_for(&observed).trifles, []);

    // Who is not known cannot be greeted again, only introduced.
    world.servers.get_mut(&(2, 1)).expect("should be there").forget(&owner).expect("should be known");
    assert_eq!(greeted(&mut world), expected[..1]);
}
