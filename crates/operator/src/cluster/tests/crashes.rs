//! The controller may die after any of its deeds: what is left are the objects, the servers and the status, and they are
//! enough for the next one.

use proptest::prelude::*;

use super::convergence::{assert_rests, spec};
use super::world::World;

/// Passes that must be enough after the last crash.
const PASSES: usize = 14;

/// A step of a world in which no server goes: not even for a moment may a slot have two owners.
fn step(world: &mut World, deeds: usize) -> bool {
    let crashed = world.pass_until(deeds).crashed;
    world.assert_no_slot_is_owned_twice();
    world.tick();
    world.assert_no_slot_is_owned_twice();
    crashed
}

fn assert_ends_well(world: &mut World, story: &str) {
    let rest = (0..PASSES).find(|_| {
        step(world, usize::MAX);
        world.is_at_rest()
    });
    assert!(rest.is_some(), "{story}: {:#?}", world.status());
    assert_rests(world);
}

/// Crash after each deed of each pass until the cluster is ready.
fn crash_everywhere(spec: &str, turn: usize) -> usize {
    let mut clean = World::empty(spec);
    clean.turn = turn;
    let mut crashes = 0;
    for pass in 0.. {
        for deeds in 0.. {
            let mut world = clean.clone();
            let cut_off = step(&mut world, deeds);
            if !cut_off {
                break;
            }
            crashes += 1;
            assert_ends_well(&mut world, &format!("pass {pass} cut off after {deeds} deeds"));
        }
        step(&mut clean, usize::MAX);
        if clean.is_at_rest() {
            break;
        }
    }
    crashes
}

#[test]
fn a_creation_may_be_cut_off_after_any_deed() {
    for turn in [0, 1] {
        let crashes = crash_everywhere(&spec(2, 1), turn);
        assert!(crashes > 30, "{crashes}");
    }
}

#[test]
fn the_creation_of_a_single_server_may_be_cut_off_after_any_deed() {
    assert!(crash_everywhere(&spec(1, 0), 0) > 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_controller_that_dies_again_and_again_gets_there(
        shards in 1_u32..=4,
        replicas in 0_u32..=2,
        turn in 0_usize..8,
        crashes in prop::collection::vec(prop_oneof![0_usize..12, 12_usize..80], 1..8),
    ) {
        let mut world = World::empty(&spec(shards, replicas));
        world.turn = turn;
        for deeds in &crashes {
            step(&mut world, *deeds);
        }
        assert_ends_well(&mut world, &format!("{shards}x{replicas} {crashes:?}"));
    }
}
