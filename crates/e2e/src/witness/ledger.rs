//! What is known of one key: which writes were acknowledged, which one may or may not be there, what is gone.
//!
//! The values of a key are numbers that count up by one with each acknowledged write, so a number found says exactly
//! which writes are still there. A key with an attempt that was never answered is not written again: that attempt may
//! arrive late, and would undo the writes after it.

/// One key of the witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its name.
    pub key: String,
    /// The slot its name leads to.
    pub slot: u16,
    /// The newest acknowledged value; 0 if nothing was.
    pub acknowledged: u64,
    /// The value after that was sent, and nobody knows whether it arrived.
    pub unknown: bool,
    /// Acknowledged values that were gone when they were looked for: each after the first up to the second.
    gone: Vec<(u64, u64)>,
}

/// Something that is not as it was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The newest value there is older than what was acknowledged.
    Lost {
        /// The key.
        key: String,
        /// What was acknowledged.
        acknowledged: u64,
        /// What is there instead; 0 for nothing.
        found: u64,
    },
    /// A value that was refused, or never sent, is there.
    Phantom {
        /// The key.
        key: String,
        /// What was acknowledged.
        acknowledged: u64,
        /// What is there instead.
        found: u64,
    },
}

impl KeyRecord {
    /// A key that nobody has written to.
    pub(super) fn new(key: String, slot: u16) -> Self {
        Self { key, slot, acknowledged: 0, unknown: false, gone: Vec::new() }
    }

    /// The value to write next.
    pub(super) fn next(&self) -> u64 {
        self.acknowledged + 1
    }

    /// The next value was acknowledged, and the server said what was there before. `ambiguous` says that an earlier
    /// attempt with the same value may have arrived already.
    pub(super) fn acknowledge(&mut self, before: u64, ambiguous: bool) -> Option<Finding> {
        let expected = self.acknowledged..=self.acknowledged + u64::from(ambiguous);
        let finding = if expected.contains(&before) { None } else { Some(self.finding(before)) };
        self.acknowledged = self.next();
        finding
    }

    /// What is there at the end.
    pub(super) fn look(&mut self, found: u64) -> Option<Finding> {
        let expected = self.acknowledged..=self.acknowledged + u64::from(self.unknown);
        if expected.contains(&found) { None } else { Some(self.finding(found)) }
    }

    fn finding(&mut self, found: u64) -> Finding {
        let (key, acknowledged) = (self.key.clone(), self.acknowledged);
        if found > acknowledged {
            return Finding::Phantom { key, acknowledged, found };
        }
        self.gone.push((found, acknowledged));
        Finding::Lost { key, acknowledged, found }
    }

    /// How many acknowledged writes were gone when they were looked for, each counted once.
    pub fn lost(&self) -> u64 {
        let mut gone = self.gone.clone();
        gone.sort_unstable();
        let mut counted = 0;
        let mut lost = 0;
        for (from, to) in gone {
            lost += to.saturating_sub(from.max(counted));
            counted = counted.max(to);
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(acknowledged: u64) -> KeyRecord {
        let mut record = KeyRecord::new("k".to_owned(), 0);
        (0..acknowledged).for_each(|before| assert_eq!(record.acknowledge(before, false), None));
        record
    }

    fn lost(acknowledged: u64, found: u64) -> Finding {
        Finding::Lost { key: "k".to_owned(), acknowledged, found }
    }

    fn phantom(acknowledged: u64, found: u64) -> Finding {
        Finding::Phantom { key: "k".to_owned(), acknowledged, found }
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        assert_eq!(record(5).look(5), None);
        assert_eq!(record(5).look(3), Some(lost(5, 3)));
        assert_eq!(record(5).look(0), Some(lost(5, 0)));
        assert_eq!(record(0).look(0), None);
    }

    #[test]
    fn what_may_be_there_may_be_there() {
        let mut record = record(5);
        record.unknown = true;
        assert_eq!((record.look(5), record.look(6)), (None, None));
        assert_eq!(record.look(4), Some(lost(5, 4)));
        assert_eq!(record.look(7), Some(phantom(5, 7)));
        assert_eq!(record.lost(), 1);
    }

    #[test]
    fn what_was_refused_must_not_be_there() {
        assert_eq!(record(5).look(6), Some(phantom(5, 6)));
    }

    #[test]
    fn a_loss_shows_although_later_writes_cover_it() {
        let mut record = record(5);
        assert_eq!(record.acknowledge(0, false), Some(lost(5, 0)));
        assert_eq!(record.acknowledge(6, false), None);
        assert_eq!((record.look(7), record.lost()), (None, 5));
    }

    #[test]
    fn a_second_attempt_may_meet_the_first() {
        assert_eq!(record(5).acknowledge(5, true), None);
        assert_eq!(record(5).acknowledge(6, true), None);
        assert_eq!(record(5).acknowledge(4, true), Some(lost(5, 4)));
        assert!(matches!(record(5).acknowledge(6, false), Some(Finding::Phantom { .. })));
    }

    #[test]
    fn a_write_is_lost_only_once() {
        let mut record = record(5);
        assert_eq!(record.acknowledge(2, false), Some(lost(5, 2)));
        assert_eq!(record.look(0), Some(lost(6, 0)));
        // 1 to 6 are gone; 3 to 5 were gone before.
        assert_eq!(record.lost(), 6);
    }
}
