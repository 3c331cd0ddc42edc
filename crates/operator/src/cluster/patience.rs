//! Since when servers settle things among themselves. What does not settle soon is looked at less often: something is in
//! the way that only time or a person removes.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a close look is worth it.
const CLOSE_LOOK_FOR: Duration = Duration::from_mins(1);

/// When a cluster was last seen at rest or getting on, by its uid.
#[derive(Default)]
pub(super) struct Patience(Mutex<HashMap<String, Instant>>);

impl Patience {
    /// Whether a cluster that settles is worth a close look.
    pub(super) fn looks_closely(&self, uid: &str, settles: bool, gets_on: bool, now: Instant) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !settles || gets_on {
            since.remove(uid);
        }
        if !settles {
            return false;
        }
        now.duration_since(*since.entry(uid.to_owned()).or_insert(now)) < CLOSE_LOOK_FOR
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
            let closely = patience.looks_closely("uid", settles, gets_on, at(seconds));
            assert_eq!(closely, close, "after {seconds} s");
        }
        assert!(patience.looks_closely("another", true, false, at(90)));
    }
}
