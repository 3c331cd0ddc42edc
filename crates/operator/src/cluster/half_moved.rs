//! Since when slots are half moved. Somebody may be moving them just now; who leaves one open for long has given up.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a slot may stay open before it counts as left behind.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);

/// When a slot was first seen half moved, by the cluster's uid. An operator that starts anew waits anew.
#[derive(Default)]
pub(super) struct HalfMoved(Mutex<HashMap<String, HashMap<u16, Instant>>>);

impl HalfMoved {
    /// Those of the open slots of a cluster that nobody moves any more.
    pub(super) fn left_behind(&self, uid: &str, open: &BTreeSet<u16>, now: Instant) -> BTreeSet<u16> {
        let mut clusters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() {
            clusters.remove(uid);
            return BTreeSet::new();
        }
        let seen = clusters.entry(uid.to_owned()).or_default();
        seen.retain(|slot, _| open.contains(slot));
        for slot in open {
            seen.entry(*slot).or_insert(now);
        }
        let old = seen.iter().filter(|(_, since)| now.duration_since(**since) >= GIVEN_UP_AFTER);
        old.map(|(slot, _)| *slot).collect()
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
    fn only_a_slot_that_stays_open_is_left_behind() {
        let slots = HalfMoved::default();
        let start = Instant::now();
        let looks: [(u64, &[u16], &[u16]); 7] = [
            (0, &[5], &[]),
            (9, &[5, 6], &[]),
            (10, &[5, 6], &[5]),
            // One was closed in between: somebody is at work.
            (12, &[6], &[]),
            (19, &[5, 6], &[6]),
            (20, &[], &[]),
            (40, &[5, 6], &[]),
        ];
        for (seconds, open, expected) in looks {
            let open = open.iter().copied().collect();
            let left = slots.left_behind("uid", &open, start + Duration::from_secs(seconds));
            assert_eq!(left.into_iter().collect::<Vec<u16>>(), expected, "after {seconds} s");
        }
        assert_eq!(slots.left_behind("other", &BTreeSet::from([5]), start + GIVEN_UP_AFTER), BTreeSet::new());
    }
}
