//! Lines about those who were refused something.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::say;

/// Between two lines for one reason: whoever tries again and again must not fill the log.
const QUIET: Duration = Duration::from_mins(1);

/// What was said so far, by reason.
#[derive(Default)]
pub(super) struct Complaints(Mutex<HashMap<&'static str, Instant>>);

impl Complaints {
    /// Say it, unless the same reason had its line a short time ago.
    pub(super) fn about(&self, reason: &'static str, now: Instant, words: impl FnOnce() -> String) {
        if self.is_due(reason, now) {
            say(&words());
        }
    }

    fn is_due(&self, reason: &'static str, now: Instant) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = said.get(reason).is_none_or(|last| now.duration_since(*last) >= QUIET);
        if is_due {
            said.insert(reason, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_line_a_minute() {
        let (complaints, begin) = (Complaints::default(), Instant::now());
        let due = |reason, seconds| complaints.is_due(reason, begin + Duration::from_secs(seconds));
        assert!(due("silent", 0) && due("notTls", 0));
        assert!(!due("silent", 59) && due("silent", 60) && !due("silent", 119));
    }
}
