//! Who owns which slot in the eyes of one server: stretches of slots, because 16384 of them would be slow.

use std::collections::{BTreeMap, BTreeSet};

use valkey::SlotRange;
use valkey::slots::SLOT_COUNT;

/// The owner from each slot on, until the next one in the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claims(BTreeMap<u16, Option<String>>);

impl Default for Claims {
    fn default() -> Self {
        Self(BTreeMap::from([(0, None)]))
    }
}

impl Claims {
    /// Every stretch, in order.
    fn stretches(&self) -> impl Iterator<Item = (SlotRange, Option<&str>)> {
        let ends = self.0.keys().skip(1).copied().chain([SLOT_COUNT]);
        self.0.iter().zip(ends).map(|((start, owner), end)| (range(*start, end - 1), owner.as_deref()))
    }

    /// What is claimed by whom in a range.
    pub(super) fn within(&self, wanted: SlotRange) -> Vec<(SlotRange, Option<String>)> {
        self.stretches()
            .filter(|(stretch, _)| stretch.start() <= wanted.end() && wanted.start() <= stretch.end())
            .map(|(stretch, owner)| {
                let (start, end) = (stretch.start().max(wanted.start()), stretch.end().min(wanted.end()));
                (range(start, end), owner.map(str::to_owned))
            })
            .collect()
    }

    pub(super) fn is_claimed(&self, range: SlotRange) -> bool {
        self.within(range).iter().any(|(_, owner)| owner.is_some())
    }

    pub(super) fn give(&mut self, range: SlotRange, owner: Option<&str>) {
        self.cut(range.start());
        self.cut(range.end() + 1);
        self.0.retain(|start, _| !range.contains(*start));
        self.0.insert(range.start(), owner.map(str::to_owned));
        // A cluster whose slots move one by one must not end in as many stretches.
        for slot in [range.start(), range.end() + 1] {
            let before = self.0.range(..slot).next_back().map(|(_, owner)| owner);
            if slot < SLOT_COUNT && before == self.0.get(&slot) {
                self.0.remove(&slot);
            }
        }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&str> {
        self.0.range(..=slot).next_back().and_then(|(_, owner)| owner.as_deref())
    }

    /// Begin a stretch here.
    fn cut(&mut self, slot: u16) {
        if slot < SLOT_COUNT {
            let owner = self.owner(slot).map(str::to_owned);
            self.0.insert(slot, owner);
        }
    }

    /// The slots of one owner, as few ranges as possible.
    pub(super) fn of(&self, id: &str) -> Vec<SlotRange> {
        self.joined(|owner| owner == Some(id))
    }

    pub(super) fn unowned(&self) -> Vec<SlotRange> {
        self.joined(|owner| owner.is_none())
    }

    pub(super) fn owners(&self) -> BTreeSet<String> {
        self.0.values().flatten().cloned().collect()
    }

    fn joined(&self, wanted: impl Fn(Option<&str>) -> bool) -> Vec<SlotRange> {
        let mut joined: Vec<SlotRange> = Vec::new();
        for (stretch, _) in self.stretches().filter(|(_, owner)| wanted(*owner)) {
            match joined.last_mut().filter(|last| last.end() + 1 == stretch.start()) {
                Some(last) => *last = range(last.start(), stretch.end()),
                None => joined.push(stretch),
            }
        }
        joined
    }
}

fn range(start: u16, end: u16) -> SlotRange {
    SlotRange::new(start, end).expect("should be a range")
}

#[test]
fn stretches_are_cut_and_joined() {
    let mut claims = Claims::default();
    assert_eq!(claims.unowned(), [SlotRange::ALL]);
    claims.give(range(10, 20), Some("a"));
    claims.give(range(15, 30), Some("b"));
    claims.give(range(31, 31), Some("b"));
    assert_eq!(claims.of("a"), [range(10, 14)]);
    assert_eq!(claims.of("b"), [range(15, 31)]);
    assert_eq!(claims.unowned(), [range(0, 9), range(32, SLOT_COUNT - 1)]);
    assert!(claims.is_claimed(range(0, 10)) && !claims.is_claimed(range(0, 9)));
    claims.give(SlotRange::ALL, Some("c"));
    assert_eq!(claims.of("c"), [SlotRange::ALL]);
    assert_eq!(claims.owners().len(), 1);
}
