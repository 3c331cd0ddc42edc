//! Agents that were called and did not answer. An agent that is heard need not be reached: somebody may keep the operator from its port.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long it must have been tried in vain: an agent that is started anew is back sooner.
const IN_VAIN_FOR: Duration = Duration::from_secs(10);
/// So long after the last try nobody knows any more.
const KNOWN_FOR: Duration = Duration::from_mins(10);

/// By uid of the pod: the first and the last try in vain.
#[derive(Default)]
pub(super) struct Unreached(Mutex<HashMap<String, (Instant, Instant)>>);

impl Unreached {
    /// An agent was called in vain.
    pub(super) fn in_vain(&self, pod_uid: &str, now: Instant) {
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tries.retain(|_, (_, last)| now.saturating_duration_since(*last) <= KNOWN_FOR);
        tries.entry(pod_uid.to_owned()).or_insert((now, now)).1 = now;
    }

    /// It answered.
    pub(super) fn answered(&self, pod_uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(pod_uid);
    }

    /// It was called in vain more than once, and never answered since.
    pub(super) fn holds_for(&self, pod_uid: &str, now: Instant) -> bool {
        let tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tries.get(pod_uid).is_some_and(|(first, last)| {
            last.saturating_duration_since(*first) >= IN_VAIN_FOR
                && now.saturating_duration_since(*last) <= KNOWN_FOR
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_called_in_vain_again_and_again_is_unreached() {
        let (unreached, begin) = (Unreached::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let holds = |seconds| unreached.holds_for("a", at(seconds));
        assert!(!holds(0));
        for (try_at, expected) in [(0, false), (5, false), (10, true)] {
            unreached.in_vain("a", at(try_at));
            assert_eq!(holds(try_at), expected, "{try_at}");
        }
        assert!(!unreached.holds_for("b", at(10)));
        assert!(holds(610) && !holds(611), "what was so long ago may be so no more");
        // The next try begins to count anew.
        unreached.in_vain("a", at(620));
        assert!(!holds(620));
        unreached.in_vain("a", at(640));
        assert!(holds(640));
        unreached.answered("a");
        assert!(!holds(640));
    }
}
