//! Slots that somebody left half moved: the operator ends what they began, and no key is lost.

use pretty_assertions::assert_eq;
use valkey::client::SetSlot;

use super::super::observe::PodStage;
use super::super::topology::Place;
use super::convergence::spec;
use super::resizing::{NEW, OLD, Used};

/// A slot of the first shard, with keys.
const SLOT: u16 = 409;
const SHARDS: [Place; 3] = [(0, 0), (1, 0), (2, 0)];

/// What was done to a slot before it was left.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// This shard was told to take it from that one.
    Takes(usize, usize),
    /// This shard was told to give it to that one.
    Gives(usize, usize),
    /// So many keys went from the first shard to this one.
    Keys(usize, usize),
    /// This shard was told that it owns the slot.
    Owns(usize),
}

fn perform(used: &mut Used, act: Act) {
    let ids = SHARDS.map(|place| used.world.server(place).id.clone());
    let mut tell = |shard: usize, word: SetSlot<'_>| {
        let server = used.world.servers.get_mut(&SHARDS[shard]).expect("should be there");
        server.set_slot(SLOT, word).expect("should be told");
    };
    match act {
        Act::Takes(shard, from) => tell(shard, SetSlot::Importing(&ids[from])),
        Act::Gives(shard, to) => tell(shard, SetSlot::Migrating(&ids[to])),
        Act::Owns(shard) => tell(shard, SetSlot::Node(&ids[shard])),
        Act::Keys(shard, count) => {
            let source = used.world.servers.get_mut(&SHARDS[0]).expect("should be there");
            let mut stay = source.keys.remove(&SLOT).expect("should hold keys");
            let go = stay.iter().copied().take(count).collect();
            stay.retain(|key| !std::collections::BTreeSet::contains(&go, key));
            source.keys.extend((!stay.is_empty()).then_some((SLOT, stay)));
            let target = used.world.servers.get_mut(&SHARDS[shard]).expect("should be there");
            target.keys.insert(SLOT, go);
        }
    }
}

#[test]
fn a_slot_that_was_left_half_moved_ends_where_its_keys_are() {
    use Act::{Gives, Keys, Owns, Takes};
    let all = usize::MAX;
    let cases: &[(&[Act], usize)] = &[
        // Both ends agree: it is finished.
        (&[Takes(1, 0), Gives(0, 1)], 1),
        (&[Takes(1, 0), Gives(0, 1), Keys(1, 2)], 1),
        (&[Takes(1, 0), Gives(0, 1), Keys(1, all)], 1),
        // One end knows nothing of it, and no key is on the way: it is called off.
        (&[Takes(1, 0)], 0),
        (&[Gives(0, 1)], 0),
        (&[Takes(1, 2)], 0),
        (&[Takes(1, 0), Takes(2, 0)], 0),
        (&[Takes(2, 0), Gives(0, 1)], 0),
        // One end knows nothing of it, and keys are on the way.
        (&[Takes(1, 0), Keys(1, 2)], 1),
        (&[Gives(0, 1), Keys(1, 2)], 1),
        (&[Takes(1, 2), Keys(1, 2)], 1),
        (&[Takes(2, 0), Gives(0, 1), Keys(2, 2)], 2),
        (&[Takes(2, 0), Gives(0, 1), Keys(1, 2)], 1),
        (&[Takes(1, 0), Takes(2, 0), Keys(2, 1)], 2),
        // The new owner knows, the old one has not heard yet.
        (&[Takes(1, 0), Gives(0, 1), Keys(1, all), Owns(1)], 1),
    ];
    for release in [OLD, NEW] {
        for (acts, owner) in cases {
            let mut used = Used::settled(release, &spec(3, 1));
            for act in *acts {
                perform(&mut used, *act);
            }
            let story = format!("{release}: {acts:?}");
            let rest = used.come_to_rest(12);
            assert!(rest.is_some(), "{story}: {:#?}", used.world.status());
            used.assert_keys(&story);
            let owners: Vec<bool> = SHARDS.map(|place| used.world.server(place).owns(SLOT)).to_vec();
            let expected: Vec<bool> = (0..3).map(|shard| shard == *owner).collect();
            assert_eq!(owners, expected, "{story}");
        }
    }
}

#[test]
fn the_work_of_somebody_else_is_left_alone() {
    let mut used = Used::settled(OLD, &spec(3, 1));
    used.world.is_patient = true;
    perform(&mut used, Act::Takes(1, 0));
    perform(&mut used, Act::Gives(0, 1));
    for _ in 0..5 {
        assert_eq!(used.step(usize::MAX).obeyed, Vec::<String>::new());
    }
    used.world.is_patient = false;
    assert!(used.come_to_rest(12).is_some());
    used.assert_keys("left alone");
}

/// Its keys may be there: whoever does not answer may come back.
#[test]
fn a_slot_waits_for_an_end_that_does_not_answer() {
    let mut used = Used::settled(OLD, &spec(3, 0));
    perform(&mut used, Act::Takes(1, 0));
    perform(&mut used, Act::Gives(0, 1));
    perform(&mut used, Act::Keys(1, 2));
    let away = used.world.servers.remove(&(1, 0)).expect("should be there");
    for _ in 0..2 {
        let passed = used.world.pass();
        assert!(
            !passed.obeyed.iter().any(|told| told.contains("SETSLOT") || told.contains("MIGRATE")),
            "{passed:?}"
        );
    }
    used.world.servers.insert((1, 0), away);
    assert!(used.come_to_rest(12).is_some(), "{:#?}", used.world.status());
    used.assert_keys("came back");
}

/// It may have lost its slots while it was away, and whoever gets one claims all that it thinks it has.
#[test]
fn a_slot_waits_for_an_end_that_is_just_back() {
    for place in [(0, 0), (1, 0)] {
        let mut used = Used::settled(OLD, &spec(3, 1));
        perform(&mut used, Act::Takes(1, 0));
        perform(&mut used, Act::Gives(0, 1));
        let pod = used.world.kubernetes.pods.get_mut(&place).expect("should have a pod");
        pod.facts.stage = PodStage::Starting;
        for _ in 0..2 {
            let passed = used.world.pass();
            assert!(
                !passed.obeyed.iter().any(|told| told.contains("SETSLOT") || told.contains("MIGRATE")),
                "{place:?}: {passed:?}"
            );
        }
        assert!(used.come_to_rest(12).is_some(), "{:#?}", used.world.status());
        used.assert_keys("it has started");
        assert!(used.world.server((1, 0)).owns(SLOT), "{place:?}");
    }
}

/// Nobody has the name any more, and with it went whatever it had.
#[test]
fn a_slot_that_leaves_for_nobody_stays() {
    let mut used = Used::settled(OLD, &spec(3, 1));
    let server = used.world.servers.get_mut(&(0, 0)).expect("should be there");
    server.migrating.insert(SLOT, "0".repeat(40));
    assert!(used.come_to_rest(12).is_some(), "{:#?}", used.world.status());
    used.assert_keys("for nobody");
    assert!(used.world.server((0, 0)).owns(SLOT));
}
