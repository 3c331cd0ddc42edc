//! Hash slots: ranges of them, how text names them, and who should own which.

mod balance;
mod initial;
mod waves;

use std::fmt;

pub use balance::{Move, Owner, balance};
pub use initial::initial;
pub use waves::waves;

/// How many hash slots a cluster has.
pub const SLOT_COUNT: u16 = 16384;

/// An inclusive range of hash slots; both ends are valid slots and in order, by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotRange {
    start: u16,
    end: u16,
}

impl SlotRange {
    /// Every slot.
    pub const ALL: Self = Self { start: 0, end: SLOT_COUNT - 1 };

    /// The range from `start` to `end`, both included; `None` where they are out of bounds or out of order.
    pub const fn new(start: u16, end: u16) -> Option<Self> {
        if start <= end && end < SLOT_COUNT { Some(Self { start, end }) } else { None }
    }

    /// The first slot.
    pub const fn start(self) -> u16 {
        self.start
    }

    /// The last slot.
    pub const fn end(self) -> u16 {
        self.end
    }

    /// How many slots the range holds; never 0.
    pub const fn count(self) -> u16 {
        self.end - self.start + 1
    }

    /// Whether the slot is in the range.
    pub const fn contains(self, slot: u16) -> bool {
        self.start <= slot && slot <= self.end
    }

    /// Reads `5` or `0-5460`.
    pub fn parse(text: &str) -> Option<Self> {
        let (start, end) = text.split_once('-').unwrap_or((text, text));
        Self::new(start.parse().ok()?, end.parse().ok()?)
    }
}

impl fmt::Display for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.start == self.end {
            write!(f, "{}", self.start)
        } else {
            write!(f, "{}-{}", self.start, self.end)
        }
    }
}

/// How many slots the ranges hold together; ranges that overlap count twice, which a caller may want to see.
pub fn count(ranges: &[SlotRange]) -> u32 {
    ranges.iter().map(|range| u32::from(range.count())).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_what_is_no_slot() {
        for text in ["16384", "0-16384", "5-4", "-1", "", "-", "1-2-3", "a", "70000", "0x1"] {
            assert_eq!(SlotRange::parse(text), None, "{text:?}");
        }
        assert_eq!(SlotRange::parse("0-16383"), Some(SlotRange::ALL));
        assert_eq!(SlotRange::ALL.count(), SLOT_COUNT);
    }

    proptest! {
        #[test]
        fn text_and_range_agree(start in 0..SLOT_COUNT, length in 0..SLOT_COUNT) {
            let end = (start + length).min(SLOT_COUNT - 1);
            let range = SlotRange::new(start, end).expect("should be in bounds");
            prop_assert_eq!(SlotRange::parse(&range.to_string()), Some(range));
            prop_assert!(range.contains(start) && range.contains(end));
        }

        #[test]
        fn any_text_is_survived(text in ".*") {
            if let Some(range) = SlotRange::parse(&text) {
                prop_assert!(range.end() < SLOT_COUNT && range.start() <= range.end());
            }
        }
    }
}
