use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::slots::{SLOT_COUNT, count, initial, waves};

fn owner(id: usize, ranges: &[SlotRange], keep: bool) -> Owner {
    Owner { id: format!("node-{id}"), ranges: ranges.to_vec(), keep }
}

fn shown(moves: &[Move]) -> Vec<String> {
    moves
        .iter()
        .map(|planned| {
            let ranges: Vec<String> = planned.ranges.iter().map(SlotRange::to_string).collect();
            format!("{}>{} {}", &planned.from[5..], &planned.to[5..], ranges.join(","))
        })
        .collect()
}

/// So many shards as a new cluster has them, then so many without slots, then those in the list leave.
fn cluster(shards: usize, fresh: usize, leaving: &[usize]) -> Vec<Owner> {
    let ranges = initial(shards).into_iter().chain(std::iter::repeat_n(Vec::new(), fresh));
    ranges.enumerate().map(|(id, ranges)| owner(id, &ranges, !leaving.contains(&id))).collect()
}

#[test]
fn growing_and_shrinking_as_people_do() {
    for (owners, expected) in [
        (cluster(3, 0, &[]), vec![]),
        (cluster(1, 1, &[]), vec!["0>1 8192-16383"]),
        (cluster(3, 1, &[]), vec!["1>3 9557-10922", "0>3 4096-5460", "2>3 15019-16383"]),
        (cluster(3, 3, &[]), vec!["1>3 8192-10922", "0>4 2731-5460", "2>5 13654-16383"]),
        (cluster(4, 0, &[3]), vec!["3>0 15018-16383", "3>1 13653-15017", "3>2 12288-13652"]),
        (cluster(6, 0, &[3, 4, 5]), vec!["3>0 8192-10922", "5>1 13653-16383", "4>2 10923-13652"]),
        (cluster(3, 1, &[0]), vec!["0>3 0-5460"]),
        (cluster(2, 0, &[0, 1]), vec![]),
        (cluster(0, 3, &[]), vec![]),
        (vec![], vec![]),
    ] {
        assert_eq!(shown(&balance(&owners)), expected, "{owners:?}");
    }
}

#[test]
fn whole_ranges_go_before_ranges_are_cut() {
    let range = |text: &str| SlotRange::parse(text).expect("should be a range");
    let ranges = [range("0-99"), range("200-249"), range("100-109"), range("400-409")];
    for (amount, expected) in [
        (1, "409"),
        (10, "400-409"),
        (11, "239-249"),
        (50, "200-249"),
        (110, "0-109"),
        (165, "0-109,200-249,405-409"),
    ] {
        let given = Holding::new(&ranges).give(amount);
        let shown: Vec<String> = given.iter().map(SlotRange::to_string).collect();
        assert_eq!(shown.join(","), expected, "{amount}");
    }
}

#[test]
fn nobody_takes_part_twice_in_a_wave() {
    let sizes = |owners: &[Owner]| waves(balance(owners)).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&cluster(3, 3, &[])), [3]);
    assert_eq!(sizes(&cluster(6, 0, &[3, 4, 5])), [3]);
    assert_eq!(sizes(&cluster(3, 1, &[])), [1, 1, 1]);
    assert_eq!(sizes(&cluster(4, 0, &[3])), [1, 1, 1]);
    assert_eq!(sizes(&cluster(3, 0, &[])), []);
}

/// Any owners of some slots: each slot has one owner at most, scattered in pieces of any length.
fn owners() -> impl Strategy<Value = Vec<Owner>> {
    let pieces = prop::collection::vec((1..3000_u16, 0..12_usize, prop::bool::weighted(0.9)), 0..60);
    (pieces, prop::collection::vec(any::<bool>(), 1..12)).prop_map(|(pieces, keeps)| {
        let mut owners: Vec<Owner> = (0..).zip(&keeps).map(|(id, keep)| owner(id, &[], *keep)).collect();
        let mut next = 0;
        for (length, owner, assigned) in pieces {
            let end = (next + length - 1).min(SLOT_COUNT - 1);
            let Some(range) = SlotRange::new(next, end) else { break };
            let number = owners.len();
            owners[owner % number].ranges.extend(assigned.then_some(range));
            next = end + 1;
        }
        owners
    })
}

/// Who owns each slot once everything has moved; a slot that is not where a move says is a mistake.
fn carried_out<'a>(owners: &'a [Owner], moves: &'a [Move]) -> Vec<Option<&'a str>> {
    let slots = |ranges: &'a [SlotRange]| {
        ranges.iter().flat_map(|range| range.start()..=range.end()).map(usize::from)
    };
    let mut owned = vec![None; usize::from(SLOT_COUNT)];
    for owner in owners {
        slots(&owner.ranges).for_each(|slot| owned[slot] = Some(owner.id.as_str()));
    }
    for planned in moves {
        for slot in slots(&planned.ranges) {
            let before = owned[slot].replace(&planned.to);
            assert_eq!(before, Some(planned.from.as_str()), "slot {slot} should be where the move begins");
        }
    }
    owned
}

fn owned_by(id: &str, owned: &[Option<&str>]) -> Vec<SlotRange> {
    let slots = (0..SLOT_COUNT).zip(owned).filter(|(_, owner)| **owner == Some(id));
    slots.filter_map(|(slot, _)| SlotRange::new(slot, slot)).collect()
}

proptest! {
    #[test]
    fn all_slots_stay_owned_evenly_and_as_few_as_possible_move(owners in owners()) {
        let moves = balance(&owners);
        let keepers: Vec<&Owner> = owners.iter().filter(|owner| owner.keep).collect();
        if keepers.is_empty() {
            prop_assert_eq!(moves, vec![]);
            return Ok(());
        }
        let total: u32 = owners.iter().map(|owner| count(&owner.ranges)).sum();
        let owned = carried_out(&owners, &moves);
        prop_assert_eq!(owned.iter().flatten().count(), total as usize);
        let number = u32::try_from(keepers.len()).expect("should fit");
        let (even, left_over) = (total / number, total % number);
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for id in owned.iter().flatten() {
            *counts.entry(id).or_default() += 1;
        }
        for owner in &owners {
            let expected = if owner.keep { even..=even + 1 } else { 0..=0 };
            prop_assert!(expected.contains(&counts.get(owner.id.as_str()).copied().unwrap_or_default()));
        }

        // Nobody gives who takes, so every slot moves once; whoever stays gives only what is above its share, and as
        // many as possible have the greater share.
        let above: u32 = keepers.iter().map(|owner| count(&owner.ranges).saturating_sub(even)).sum();
        let greater = keepers.iter().filter(|owner| count(&owner.ranges) > even).count();
        let leaving: u32 = owners.iter().filter(|owner| !owner.keep).map(|owner| count(&owner.ranges)).sum();
        let least = leaving + above - left_over.min(u32::try_from(greater).expect("should fit"));
        prop_assert_eq!(moves.iter().map(|planned| count(&planned.ranges)).sum::<u32>(), least);
        prop_assert!(moves.iter().all(|planned| planned.from != planned.to && !planned.ranges.is_empty()));
        // A chain of givers and takers needs one move less than it has members.
        prop_assert!(moves.len() < owners.len() || moves.is_empty());
    }

    #[test]
    fn the_result_is_at_rest(owners in owners()) {
        let moves = balance(&owners);
        let owned = carried_out(&owners, &moves);
        let keepers = owners.iter().filter(|owner| owner.keep);
        let rest: Vec<Owner> =
            keepers.map(|owner| Owner { ranges: owned_by(&owner.id, &owned), ..owner.clone() }).collect();
        prop_assert_eq!(balance(&rest), vec![]);
    }

    #[test]
    fn waves_hold_every_move_once(owners in owners()) {
        let moves = balance(&owners);
        let waves = waves(moves.clone());
        for wave in &waves {
            let mut ends: Vec<&str> =
                wave.iter().flat_map(|planned| [planned.from.as_str(), planned.to.as_str()]).collect();
            ends.sort_unstable();
            ends.dedup();
            prop_assert_eq!(ends.len(), 2 * wave.len());
        }
        let mut all = waves.concat();
        prop_assert_eq!(all.len(), moves.len());
        all.retain(|planned| !moves.contains(planned));
        prop_assert_eq!(all, vec![]);
    }
}
