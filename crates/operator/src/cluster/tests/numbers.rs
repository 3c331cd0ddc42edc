//! What passes say in numbers: of a cluster that is made, that is whole, that lost a part, and that changed.

use std::collections::BTreeSet;
use std::time::Duration;

use api::ValkeyClusterStatus;
use api::cluster::Orchestration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::metrics::{Failover, Numbers};
use pretty_assertions::assert_eq;
use valkey::SlotRange;
use valkey::client::FailoverMode;
use valkey::cluster::{Direction, MigrationState, SlotMigration};

use super::super::act::Outcome;
use super::super::command::{Order, Route};
use super::super::numbers::numbers;
use super::super::observe::Observed;
use super::super::plan::Deed;
use super::super::server::ServerView;
use super::super::status::Seen;
use super::super::topology::Topology;
use super::convergence::spec;
use super::world::{NAMESPACE, World, at};

/// The numbers of a pass over what was observed, with this outcome, between these statuses, at second 100.
fn told(
    world: &mut World,
    observed: &Observed,
    outcome: &Outcome,
    before: &ValkeyClusterStatus,
    after: &ValkeyClusterStatus,
) -> Numbers {
    let desired = world.desired();
    let topology = Topology::of(observed, NAMESPACE);
    let users = world.users(&desired, observed, &topology);
    let seen = Seen { desired: &desired, observed, topology: &topology, users: &users };
    numbers(&seen, outcome, before, after, at(100))
}

#[test]
fn a_cluster_that_is_made_and_whole() {
    let mut world = World::empty(&spec(3, 1));
    world.pass();
    let wanted = Numbers { phase: "Pending", shards_wanted: 3, nodes_wanted: 6, ..Numbers::default() };
    assert_eq!(world.numbers, wanted);
    assert!(world.come_to_rest(16).is_some());
    world.pass();
    let whole = Numbers { phase: "Ready", shards_ready: 3, nodes_in_sync: 6, slots_served: 16384, ..wanted };
    assert_eq!(world.numbers, whole);
}

#[test]
fn a_primary_that_is_lost_is_missed_and_its_successor_was_ordered() {
    let mut world = World::settled(&spec(3, 1));
    world.lose((1, 0));
    world.pass();
    let Numbers { phase, shards_ready, nodes_in_sync, slots_served, .. } = world.numbers;
    assert_eq!((phase, shards_ready, nodes_in_sync, slots_served), ("Degraded", 2, 4, 10922));
    let mut ordered = Vec::new();
    for _ in 0..24 {
        world.tick();
        world.pass();
        ordered.append(&mut world.numbers.failovers);
    }
    assert_eq!(ordered, [Failover::Forced]);
    assert_eq!(world.numbers.nodes_in_sync, 6);
}

#[test]
fn orders_that_were_obeyed_are_told_apart() {
    let mut world = World::settled(&spec(1, 0));
    let observed = world.observe();
    let moved = Order::Migrate { ranges: vec![SlotRange::ALL], to: "other".to_owned() };
    let outcome = Outcome {
        obeyed: vec![
            Order::Failover(FailoverMode::Takeover),
            moved.clone(),
            Order::Meet("10.0.0.1".to_owned()),
            Order::Failover(FailoverMode::Planned),
            moved,
        ],
        ..Outcome::default()
    };
    let status = world.status();
    let told = told(&mut world, &observed, &outcome, &status, &status);
    assert_eq!(told.failovers, [Failover::Takeover, Failover::Planned]);
    assert_eq!(told.migrations_started, 2);
}

#[test]
fn slots_that_are_carried_one_by_one_begin_once_and_fail_each_time() {
    let mut world = World::settled(&spec(1, 0));
    let observed = world.observe();
    let route = Route { ranges: vec![SlotRange::ALL], to: (0, 0), others: Vec::new() };
    let outcome = Outcome {
        obeyed: vec![Order::Carry(route)],
        deeds: vec![Deed::warning("MigrationFailed", "busy"), Deed::normal("MovingSlots", "on the way")],
        ..Outcome::default()
    };
    let still = world.status();
    let mut moving = still.clone();
    moving.orchestration = Some(Orchestration {
        name: "Scale".to_owned(),
        phase: Some("12 slots are still to be moved".to_owned()),
        ..Orchestration::default()
    });
    for (before, started) in [(&still, 1), (&moving, 0)] {
        let told = told(&mut world, &observed, &outcome, before, &moving);
        assert_eq!((told.migrations_started, told.migrations_failed_now), (started, 1));
    }
}

#[test]
fn a_failed_move_is_named_once_and_a_fallback_is_counted() {
    let mut world = World::settled(&spec(2, 0));
    let mut observed = world.observe();
    let one = |name: &str, operation, state| SlotMigration {
        name: name.to_owned(),
        operation,
        ranges: vec![SlotRange::ALL],
        source_id: None,
        target_id: None,
        state,
        message: String::new(),
    };
    for (place, migrations) in [
        (
            (0, 0),
            vec![
                one("failed", Direction::Export, MigrationState::Failed),
                one("done", Direction::Export, MigrationState::Success),
            ],
        ),
        ((1, 0), vec![one("other-end", Direction::Import, MigrationState::Failed)]),
    ] {
        let node = observed.nodes.get_mut(&place).expect("should be there");
        let ServerView::Answering(facts) = &mut node.server else { panic!("should answer") };
        facts.migrations = migrations;
        facts.by_fallback = place == (1, 0);
    }
    let status = world.status();
    let told = told(&mut world, &observed, &Outcome::default(), &status, &status);
    assert_eq!(told.migrations_failed, BTreeSet::from(["failed".to_owned()]));
    assert_eq!(told.auth_fallbacks, 1);
}

#[test]
fn a_change_runs_and_ends() {
    let with = |change: Option<(&str, u32)>| ValkeyClusterStatus {
        orchestration: change.map(|(name, started)| Orchestration {
            name: name.to_owned(),
            started_at: Some(Time(at(started))),
            ..Orchestration::default()
        }),
        ..ValkeyClusterStatus::default()
    };
    let mut world = World::settled(&spec(1, 0));
    let observed = world.observe();
    let (roll, scale) = ("RollingUpdate", "Scale");
    let ten = Duration::from_secs(10);
    for (before, after, running, ended) in [
        (None, Some((roll, 100)), Some(roll), None),
        (Some((roll, 40)), Some((roll, 40)), Some(roll), None),
        (Some((roll, 40)), None, None, Some((roll, Duration::from_mins(1)))),
        (Some((scale, 99)), Some((roll, 100)), Some(roll), Some((scale, Duration::from_secs(1)))),
        (Some(("Recovery", 90)), Some(("MergeShards", 100)), Some("MergeShards"), Some(("Recovery", ten))),
        // A clock that was set back.
        (Some((scale, 101)), None, None, Some((scale, Duration::ZERO))),
        (Some(("somebody's", 1)), Some(("else's", 1)), None, None),
        (None, None, None, None),
    ] {
        let (before, after) = (with(before), with(after));
        let told = told(&mut world, &observed, &Outcome::default(), &before, &after);
        assert_eq!((told.orchestration, told.ended), (running, ended), "{before:?} {after:?}");
    }
}
