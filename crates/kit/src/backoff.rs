//! How long to wait before an object that failed is tried again: per object, doubling, bounded, forgotten on success.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(2);

/// Counts failures per key. Only a hint: losing it with the process costs nothing but a few early tries.
#[derive(Debug)]
pub struct Backoff<K> {
    failures: Mutex<HashMap<K, u32>>,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self { failures: Mutex::default() }
    }
}

impl<K: Eq + Hash> Backoff<K> {
    /// One more failure; how long to wait now.
    pub fn failed(&self, key: K) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        delay(*count)
    }

    /// The object is well (or gone).
    pub fn succeeded(&self, key: &K) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

fn delay(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_start_over_after_a_success() {
        let backoff = Backoff::default();
        let waits: Vec<u64> = (0..9).map(|_| backoff.failed("a").as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
        assert_eq!(backoff.failed("b").as_secs(), 1, "objects do not share their failures");
        backoff.succeeded(&"a");
        assert_eq!(backoff.failed("a").as_secs(), 1);
    }
}
