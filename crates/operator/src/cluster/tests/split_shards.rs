//! Two primaries in a shard become one again.

use pretty_assertions::assert_eq;
use valkey::SlotRange;

use super::super::command::{Command, Order};
use super::super::observe::PodStage;
use super::super::plan::Plan;
use super::super::topology::Place;
use super::convergence::spec;
use super::resizing::{NEW, OLD, Used, die_everywhere, last_slots};

/// A replica leads a part of its shard, and everybody knows it.
fn split(used: &mut Used, place: Place, ranges: &[SlotRange]) {
    // Its copy is complete.
    used.world.tick();
    used.world.servers.get_mut(&place).expect("should be there").secede(ranges);
    for _ in 0..3 {
        used.world.tick();
    }
}

fn range(start: u16, end: u16) -> SlotRange {
    SlotRange::new(start, end).expect("should be slots")
}

#[test]
fn whoever_owns_fewer_slots_gives_them_up_and_follows() {
    for release in [OLD, NEW] {
        // The second of three shards owns 5461 to 10922.
        for (ranges, stays, follows) in
            [([range(5461, 6000)], (1, 0), (1, 1)), ([range(5461, 10000)], (1, 1), (1, 0))]
        {
            let mut used = Used::settled(release, &spec(3, 2));
            let before = used.world.server((0, 0)).slots();
            used.world.time = 2000;
            split(&mut used, (1, 1), &ranges);
            let story = format!("{release}: {ranges:?}");
            used.assert_ends_well(3, &story);
            assert_eq!(used.world.server(stays).slots(), [range(5461, 10922)], "{story}");
            let leader = used.world.server(stays).id.clone();
            assert_eq!(used.world.server(follows).follows(), Some(leader.as_str()), "{story}");
            assert_eq!(used.world.server((0, 0)).slots(), before, "{story}: nobody else gives or takes");
        }
    }
}

#[test]
fn nobody_gives_up_slots_before_it_knows_that_they_are_its_own() {
    let mut used = Used::settled(NEW, &spec(3, 2));
    split(&mut used, (1, 1), &[range(5461, 6000)]);
    let observed = used.world.observe();
    assert!(moves_slots(&used.world.plan_for(&observed)));
    for place in [(1, 0), (1, 1)] {
        let mut observed = observed.clone();
        let pod = observed.nodes.get_mut(&place).and_then(|node| node.pod.as_mut());
        pod.expect("should have a pod").stage = PodStage::Starting;
        let plan = used.world.plan_for(&observed);
        assert_eq!(plan.undertaking.as_ref().expect("should be merged").name, "MergeShards");
        assert!(!moves_slots(&plan), "{place:?}");
    }
}

fn moves_slots(plan: &Plan) -> bool {
    let is_move = |command: &Command| matches!(command.order, Order::Migrate { .. } | Order::Carry(_));
    plan.stages.iter().flatten().any(is_move)
}

#[test]
fn three_primaries_in_a_shard_become_one() {
    let mut used = Used::settled(OLD, &spec(2, 2));
    split(&mut used, (1, 1), &[range(8192, 8500)]);
    split(&mut used, (1, 2), &[range(9000, 9999)]);
    used.assert_ends_well(2, "three primaries");
    assert_eq!(used.world.server((1, 0)).slots(), [range(8192, 16383)]);
}

#[test]
fn a_merge_may_be_cut_off_at_any_word() {
    let mut used = Used::settled(OLD, &spec(2, 1));
    split(&mut used, (1, 1), &[last_slots()]);
    let deaths = die_everywhere(used, 2);
    assert!(deaths > 20, "{deaths}");
}
