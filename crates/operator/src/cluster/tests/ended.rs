//! Servers whose agents say that they have ended: the agents have the first word, then the operator.

use std::collections::BTreeSet;
use std::time::Duration;

use pretty_assertions::assert_eq;
use valkey::client::FailoverMode;
use valkey::info::PrimaryLink;

use super::super::command::Order;
use super::super::observe::Observed;
use super::super::server::ServerView;
use super::super::topology::Place;
use super::convergence::spec;
use super::world::World;
use crate::heartbeats::Death;

/// A cluster of so many shards whose first primary does not answer, and what its agent told of that.
fn after_a_death(shards: u32, volumes: &str, ago: u64, lasts: bool) -> (World, Observed) {
    let mut world = World::settled(&format!("{}\n{volumes}", spec(shards, 1)));
    let mut observed = world.observe();
    let node = observed.nodes.get_mut(&(0, 0)).expect("should be there");
    node.server = ServerView::Unreachable("refused".to_owned());
    node.death = Some(Death { ago: Duration::from_millis(ago), lasts });
    let link = link(&mut observed, (0, 1));
    (link.link_up, link.link_down_seconds, link.offset) = (false, Some(ago / 1000), Some(100));
    (world, observed)
}

fn link(observed: &mut Observed, place: Place) -> &mut PrimaryLink {
    let node = observed.nodes.get_mut(&place).expect("should be there");
    let ServerView::Answering(facts) = &mut node.server else { panic!("should answer") };
    facts.replication.as_mut().and_then(|replication| replication.primary.as_mut()).expect("should follow")
}

fn takeovers(world: &mut World, observed: &Observed) -> Vec<(Place, FailoverMode)> {
    let plan = world.plan_for(observed);
    let orders = plan.stages.iter().flatten().filter_map(|command| match command.order {
        Order::Failover(mode) => Some((command.at, mode)),
        _ => None,
    });
    orders.collect()
}

const VOLUMES: &str = "persistence: {size: 1Gi}";

#[test]
fn a_replica_takes_over_once_the_agents_had_their_turn() {
    for (shards, volumes, ago, lasts, expected) in [
        (3, "", 3000, true, vec![((0, 1), FailoverMode::Force)]),
        (3, VOLUMES, 9000, true, vec![((0, 1), FailoverMode::Force)]),
        // Too few are left to vote.
        (1, VOLUMES, 3000, true, vec![((0, 1), FailoverMode::Takeover)]),
        (2, "", 3000, true, vec![((0, 1), FailoverMode::Takeover)]),
        (3, "", 2999, true, vec![]),
        // Another one was seen since, or nobody knows.
        (3, "", 9000, false, vec![]),
    ] {
        let (mut world, observed) = after_a_death(shards, volumes, ago, lasts);
        assert_eq!(takeovers(&mut world, &observed), expected, "{shards} {volumes} {ago} {lasts}");
    }
}

#[test]
fn nobody_takes_over_while_an_older_pod_may_still_run_a_server() {
    let (mut world, mut observed) = after_a_death(3, "", 9000, true);
    observed.nodes.get_mut(&(0, 0)).expect("should be there").another_pod_leaves = true;
    assert_eq!(takeovers(&mut world, &observed), []);
}

/// The server may come back with all it had; whoever takes over with less makes that the truth.
#[test]
fn a_replica_that_lacks_something_waits_for_the_server_to_come_back() {
    type Lacks = fn(&mut PrimaryLink);
    let lacking: [(&str, Lacks); 6] = [
        ("nothing at all", |_| {}),
        ("a copy that broke off", |link| link.offset = Some(1)),
        ("a copy that was never made", |link| link.link_down_seconds = None),
        ("a copy that comes in", |link| link.sync_in_progress = true),
        ("what came after its link broke", |link| link.link_down_seconds = Some(600)),
        ("a death: it follows still", |link| link.link_up = true),
    ];
    for shards in [1, 3] {
        for (number, (what, lacks)) in lacking.into_iter().enumerate() {
            let (mut world, mut observed) = after_a_death(shards, VOLUMES, 9000, true);
            lacks(link(&mut observed, (0, 1)));
            let takes_over = !takeovers(&mut world, &observed).is_empty();
            assert_eq!(takes_over, number == 0, "{shards} shards: {what}");
            assert_eq!(world.plan_for(&observed).waits, Vec::<String>::new());
        }
    }
}

/// What was in memory is gone: its server waits until somebody leads in its place, so that nobody copies nothing from it.
#[test]
fn whoever_is_left_takes_over_where_nothing_can_come_back() {
    type Lacks = fn(&mut PrimaryLink);
    let lacking: [(Lacks, Option<&[&str]>); 4] = [
        (|link| link.link_down_seconds = Some(600), Some(&["PrimaryLost"])),
        (|link| link.offset = Some(0), Some(&["DataLost", "PrimaryLost"])),
        (|link| link.sync_in_progress = true, Some(&["DataLost", "PrimaryLost"])),
        // Then it did not end.
        (|link| link.link_up = true, None),
    ];
    for shards in [1, 3] {
        for (lacks, expected) in lacking {
            let (mut world, mut observed) = after_a_death(shards, "", 9000, true);
            lacks(link(&mut observed, (0, 1)));
            let takes_over = !takeovers(&mut world, &observed).is_empty();
            let reasons: Vec<&str> = world.plan_for(&observed).deeds.iter().map(|deed| deed.reason).collect();
            assert_eq!((takes_over, &*reasons), (expected.is_some(), expected.unwrap_or_default()));
        }
    }
}

/// Whoever is back as somebody else proves its death too: the agents have their turn all the same.
#[test]
fn the_operator_does_not_talk_over_the_agents() {
    let mut world = World::settled(&spec(3, 1));
    world.lose((0, 0));
    let is_back = |world: &World| world.servers.contains_key(&(0, 0));
    for _ in 0..10 {
        if !is_back(&world) {
            world.tick();
        }
    }
    assert!(is_back(&world));
    let orders = |world: &mut World, death: Option<u64>| {
        let mut observed = world.observe();
        let death = death.map(|ago| Death { ago: Duration::from_millis(ago), lasts: false });
        observed.nodes.get_mut(&(0, 0)).expect("should be there").death = death;
        takeovers(world, &observed)
    };
    let told: BTreeSet<usize> = [None, Some(5000)].map(|death| orders(&mut world, death).len()).into();
    assert_eq!(told, BTreeSet::from([1]), "without a word, or long after it");
    assert_eq!(orders(&mut world, Some(300)), []);
}
