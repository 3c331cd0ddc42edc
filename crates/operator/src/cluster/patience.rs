//! Since when servers settle things among themselves, and how soon to look at them again. What does not settle soon is looked at
//! less often: something is in the way that only time or a person removes.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a close look is worth it.
const CLOSE_LOOK_FOR: Duration = Duration::from_mins(1);
/// Slots that move are looked at after this part of the time they have taken so far: their end is then noticed late by no more
/// than that part, and moves that last are not disturbed by questions.
const PART_OF_MOVES: u32 = 20;
/// How soon slots that move are looked at again, at the earliest and at the latest.
const MOVES_WITHIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// When a cluster was last seen at rest or getting on, by its uid.
#[derive(Default)]
pub(super) struct Patience(Mutex<HashMap<String, Instant>>);

/// How a cluster that settles is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// It is worth a close look.
    pub(super) closely: bool,
    /// When to look at slots that move.
    pub(super) at_moves_after: Duration,
}

impl Look {
    fn after(settling: Duration) -> Self {
        let (earliest, latest) = MOVES_WITHIN;
        let at_moves_after = (settling / PART_OF_MOVES).clamp(earliest, latest);
        Self { closely: settling < CLOSE_LOOK_FOR, at_moves_after }
    }
}

impl Patience {
    /// How to look at a cluster; at rest, not closely.
    pub(super) fn look(&self, uid: &str, settles: bool, gets_on: bool, now: Instant) -> Look {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !settles || gets_on {
            since.remove(uid);
        }
        if !settles {
            return Look { closely: false, ..Look::after(Duration::ZERO) };
        }
        Look::after(now.duration_since(*since.entry(uid.to_owned()).or_insert(now)))
    }

    /// Only these clusters are still there.
    pub(super) fn retain(&self, there: &HashSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| there.contains(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_settle_is_looked_at_less_often_until_it_does() {
        let (patience, start) = (Patience::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for (seconds, settles, gets_on, close) in [
            (0, true, false, true),
            (59, true, false, true),
            (60, true, false, false),
            (90, true, true, true),
            (149, true, false, true),
            (150, true, false, false),
            (151, false, false, false),
            (152, true, false, true),
        ] {
            let look = patience.look("uid", settles, gets_on, at(seconds));
            assert_eq!(look.closely, close, "after {seconds} s");
        }
        assert!(patience.look("another", true, false, at(90)).closely);
    }

    #[test]
    fn the_end_of_moves_is_noticed_late_by_a_small_part_of_their_time() {
        let (patience, start) = (Patience::default(), Instant::now());
        for (after, look_after) in [(0, 50), (999, 50), (2000, 100), (20_000, 1000), (300_000, 2000)] {
            let look = patience.look("uid", true, false, start + Duration::from_millis(after));
            assert_eq!(look.at_moves_after.as_millis(), look_after, "after {after} ms");
        }
        // The next wave is as new as the first one was.
        let look = patience.look("uid", true, true, start + Duration::from_mins(6));
        assert_eq!(look.at_moves_after.as_millis(), 50);
    }
}
