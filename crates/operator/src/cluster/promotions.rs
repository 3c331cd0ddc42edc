//! Orders to take over that may still be under way. A second one for the same shard would disturb the first.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a server tries to obey, by its own default.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// When a shard of a cluster was last told, by the cluster's uid and the shard's number. An operator that starts anew
/// knows of none: repeating an order is a delay, not a danger.
#[derive(Default)]
pub(super) struct Promotions(Mutex<HashMap<(String, u32), Instant>>);

impl Promotions {
    /// Shards of a cluster with an order under way.
    pub(super) fn in_flight(&self, uid: &str, now: Instant) -> BTreeSet<u32> {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.retain(|_, since| now.duration_since(*since) < UNDER_WAY);
        orders.keys().filter(|(cluster, _)| cluster == uid).map(|(_, shard)| *shard).collect()
    }

    /// Orders are about to be given.
    pub(super) fn began(&self, uid: &str, shards: &BTreeSet<u32>, now: Instant) {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for shard in shards {
            orders.insert((uid.to_owned(), *shard), now);
        }
    }
}
