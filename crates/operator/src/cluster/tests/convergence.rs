//! From nothing, and from whatever happened meanwhile, a few passes lead to a cluster that is ready and needs nothing.

use api::cluster::ClusterPhase;
use pretty_assertions::assert_eq;
use valkey::slots;

use super::super::topology::Place;
use super::world::World;

/// Passes that must be enough to make a cluster: objects, addresses, zones, slots and introductions, trust, copies, budget.
const PASSES: usize = 10;

pub(in super::super) fn spec(shards: u32, replicas: u32) -> String {
    format!("shards: {shards}\nreplicas: {replicas}")
}

/// Nothing is written, told or reported any more.
pub(super) fn assert_rests(world: &mut World) {
    let before = (world.kubernetes.clone(), serde_json::to_string(&world.cluster).expect("should be JSON"));
    for _ in 0..2 {
        let passed = world.pass();
        assert!(passed.did_nothing(), "{passed:#?}");
        world.tick();
    }
    let after = (world.kubernetes.clone(), serde_json::to_string(&world.cluster).expect("should be JSON"));
    assert_eq!(after, before);
}

fn becomes_ready(replicas: u32) {
    for shards in 1..=6 {
        let mut world = World::empty(&spec(shards, replicas));
        let passes = world.come_to_rest(PASSES);
        assert!(passes.is_some(), "{shards}x{replicas}: {:#?}", world.status());
        assert_rests(&mut world);
        for (shard, share) in (0..).zip(slots::initial(shards as usize)) {
            assert_eq!(world.server((shard, 0)).slots(), share);
        }
        let summary = world.status().summary.expect("should have a summary");
        let nodes = shards * (replicas + 1);
        assert_eq!(summary.shards, format!("{shards}/{shards}"));
        assert_eq!(summary.nodes, format!("{nodes}/{nodes}"));
        assert_eq!(summary.slots, "16384/16384");
    }
}

#[test]
fn every_cluster_without_replicas_becomes_ready_and_rests() {
    becomes_ready(0);
}

#[test]
fn every_cluster_with_a_replica_becomes_ready_and_rests() {
    becomes_ready(1);
}

#[test]
fn every_cluster_with_two_replicas_becomes_ready_and_rests() {
    becomes_ready(2);
}

#[test]
fn every_cluster_with_three_replicas_becomes_ready_and_rests() {
    becomes_ready(3);
}

/// A ready cluster with data in it.
fn in_use(spec: &str) -> World {
    let mut world = World::settled(spec);
    world.servers.values_mut().for_each(|server| server.has_keys = true);
    world
}

/// Ready again, every slot with one owner, and the data is still there.
fn assert_recovers(world: &mut World, passes: usize) {
    let rest = world.come_to_rest(passes);
    assert!(rest.is_some(), "{:#?}\n{:#?}", world.status(), world.servers);
    assert_rests(world);
    world.assert_no_slot_is_owned_twice();
    let empty: Vec<&Place> =
        world.servers.iter().filter(|(_, server)| !server.has_keys).map(|(place, _)| place).collect();
    assert!(empty.is_empty(), "the data of {empty:?} is gone");
}

#[test]
fn pods_that_all_move_to_new_addresses_are_introduced_again() {
    for (shards, replicas) in [(1, 0), (2, 0), (3, 1), (4, 2)] {
        let mut world = in_use(&spec(shards, replicas));
        let places: Vec<Place> = world.servers.keys().copied().collect();
        let ids: Vec<String> = world.servers.values().map(|server| server.id.clone()).collect();
        for place in places {
            world.replace_pod(place);
        }
        assert_recovers(&mut world, 24);
        assert_eq!(world.servers.values().map(|server| server.id.clone()).collect::<Vec<_>>(), ids);
    }
}

#[test]
fn servers_that_get_each_others_addresses_find_each_other() {
    let mut world = in_use(&spec(3, 1));
    let mut addresses: Vec<String> = world.servers.values().map(|server| server.address.clone()).collect();
    addresses.rotate_left(1);
    for (place, address) in world.servers.keys().copied().collect::<Vec<_>>().into_iter().zip(addresses) {
        world.move_to(place, &address);
    }
    assert_recovers(&mut world, 24);
}

#[test]
fn a_primary_that_came_back_as_a_stranger_follows_its_successor() {
    for (shards, replicas) in [(3, 1), (3, 2), (5, 1)] {
        let mut world = in_use(&spec(shards, replicas));
        let former = world.server((1, 0)).id.clone();
        world.lose((1, 0));
        assert_recovers(&mut world, 32);
        assert!(world.server((1, 0)).slots().is_empty(), "a stranger is given nothing");
        assert!(world.servers.values().all(|server| !server.knows(&former)), "nobody has this name any more");
    }
}

#[test]
fn a_replica_that_came_back_as_a_stranger_is_taken_in_again() {
    let mut world = in_use(&spec(3, 1));
    let former = world.server((2, 1)).id.clone();
    world.lose((2, 1));
    assert_recovers(&mut world, 32);
    assert!(world.servers.values().all(|server| !server.knows(&former)));
}

/// The data was in memory and is gone whatever anybody does: the slots are served again, and the status says so.
#[test]
fn a_shard_in_memory_that_lost_its_only_copy_begins_anew() {
    let mut world = in_use(&spec(3, 0));
    let had = world.server((1, 0)).slots();
    world.lose((1, 0));
    assert!(world.come_to_rest(24).is_some(), "{:#?}", world.status());
    assert_rests(&mut world);
    world.assert_no_slot_is_owned_twice();
    assert_eq!(world.server((1, 0)).slots(), had);
}

/// Somebody may still find the data of a volume: nothing is given up without a word.
#[test]
fn a_shard_on_volumes_that_came_back_empty_waits_for_the_user() {
    let mut world = in_use(&format!("{}\npersistence: {{size: 1Gi}}", spec(3, 0)));
    world.lose((1, 0));
    for _ in 0..16 {
        world.pass();
        world.tick();
    }
    let status = world.status();
    assert_eq!(status.phase, Some(ClusterPhase::Error));
    assert_eq!(status.reason.as_deref(), Some("WaitingForUser"));
    assert!(world.server((1, 0)).slots().is_empty());
    let consent = (api::keys::ACCEPT_DATA_LOSS.to_owned(), "true".to_owned());
    world.cluster.metadata.annotations = Some([consent].into());
    assert!(world.come_to_rest(24).is_some(), "{:#?}", world.status());
}
