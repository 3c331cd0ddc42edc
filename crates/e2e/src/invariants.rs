//! What must hold for a cluster whatever befell it. Each check looks at plain data and returns what is wrong in words.
//!
//! ```no_run
//! # async fn example(access: e2e::access::Access, wanted: e2e::invariants::Wanted) {
//! use std::time::Duration;
//!
//! use e2e::invariants::{self, Observation};
//!
//! invariants::eventually("the cluster is whole", Duration::from_secs(30), async || {
//!     invariants::all(&Observation::of(&access, &wanted).await, &wanted)
//! })
//! .await;
//! # }
//! ```

pub mod kept;
mod observation;
pub mod secrets;
mod sync;
mod topology;

use std::time::Duration;

pub use observation::{Observation, View, Wanted};
use snafu::Snafu;
pub use sync::replicas_in_sync;
use tokio::time::Instant;
pub use topology::{
    no_open_slots, no_troubled_members, one_primary_per_shard, only_members, slots_covered, views_agree,
};

/// How often something that must become true is looked at.
const EVERY: Duration = Duration::from_millis(100);

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Snafu)]
pub enum Violation {
    /// A server cannot be asked.
    #[snafu(display("{server} does not answer: {why}"))]
    Silent {
        /// The server.
        server: String,
        /// Why.
        why: String,
    },
    /// A server does not see the whole cluster.
    #[snafu(display("{server} calls the state of the cluster {state:?}"))]
    NotOk {
        /// The server.
        server: String,
        /// Its word for it.
        state: String,
    },
    /// Slots without an owner.
    #[snafu(display("{server} knows no owner of slots {slots}"))]
    Uncovered {
        /// Who sees it so.
        server: String,
        /// The slots.
        slots: String,
    },
    /// Slots with several owners, in one view or between views.
    #[snafu(display("slots {slots} are owned by {}", owners.join(" and ")))]
    Contested {
        /// The slots.
        slots: String,
        /// The owners, each with one who believes in it.
        owners: Vec<String>,
    },
    /// A shard without exactly one primary.
    #[snafu(display("shard {shard} has {} primaries: {}", primaries.len(), primaries.join(", ")))]
    Primaries {
        /// The number of the shard, as wanted.
        shard: usize,
        /// Those who call themselves primary.
        primaries: Vec<String>,
    },
    /// A server that does not know of a shard's primary, or takes it for something else.
    #[snafu(display("{server} does not know {primary} as the primary of shard {shard}"))]
    PrimaryUnknown {
        /// Who does not know.
        server: String,
        /// The primary.
        primary: String,
        /// The number of the shard, as wanted.
        shard: usize,
    },
    /// A replica that follows nobody, or somebody else than its shard's primary.
    #[snafu(display("{replica} follows {follows} instead of the primary of shard {shard}, {primary}"))]
    Astray {
        /// The replica.
        replica: String,
        /// Whom it follows.
        follows: String,
        /// The number of the shard, as wanted.
        shard: usize,
        /// The shard's primary.
        primary: String,
    },
    /// A replica that does not hold its primary's data.
    #[snafu(display("{replica} is not in sync with {primary}: {why}"))]
    OutOfSync {
        /// The replica.
        replica: String,
        /// Its primary.
        primary: String,
        /// What is wrong with the link or the offset.
        why: String,
    },
    /// A member that nobody wants.
    #[snafu(display("{server} knows {stranger}, which is no wanted member and owns {slots} slots"))]
    Stranger {
        /// Who knows it.
        server: String,
        /// Id and address.
        stranger: String,
        /// How many slots it owns.
        slots: u32,
    },
    /// A member that is missing in another one's table.
    #[snafu(display("{server} does not know the member {member}"))]
    Missing {
        /// Whose table it is.
        server: String,
        /// Who is missing.
        member: String,
    },
    /// A member that another one thinks ill of.
    #[snafu(display("{server} sees {member} as {trouble}"))]
    Troubled {
        /// Who sees it so.
        server: String,
        /// Who is seen.
        member: String,
        /// `fail`, `handshake`, `disconnected` and so on.
        trouble: String,
    },
    /// A slot that is half way from one node to another.
    #[snafu(display("{server} has slot {slot} open: {direction} {other}"))]
    OpenSlot {
        /// Whose slot it is.
        server: String,
        /// The slot.
        slot: u16,
        /// `migrating to` or `importing from`.
        direction: &'static str,
        /// The other end.
        other: String,
    },
    /// An object that was to be kept is gone, or another one has its name.
    #[snafu(display("{object} was {what} and nobody asked for that"))]
    NotKept {
        /// Kind and name.
        object: String,
        /// What happened.
        what: String,
    },
    /// A secret where everybody can read it. The secret itself is not repeated.
    #[snafu(display("{place} holds the secret {secret}, {form}"))]
    Leaked {
        /// Where.
        place: String,
        /// What the secret is called.
        secret: String,
        /// In plain text or encoded.
        form: &'static str,
    },
}

/// Everything that can be said of a cluster from what its servers tell.
pub fn all(observation: &Observation, wanted: &Wanted) -> Vec<Violation> {
    [
        observation.silent(),
        slots_covered(observation),
        views_agree(observation),
        one_primary_per_shard(observation, wanted),
        replicas_in_sync(observation, wanted, 0),
        only_members(observation),
        no_troubled_members(observation),
        no_open_slots(observation),
    ]
    .concat()
}

/// Waits until a check finds nothing, and returns how long that took. Ends the test with what is still wrong.
pub async fn eventually<F>(what: &str, patience: Duration, mut check: F) -> Duration
where
    F: AsyncFnMut() -> Vec<Violation>,
{
    let begun = Instant::now();
    loop {
        let violations = check().await;
        if violations.is_empty() {
            return begun.elapsed();
        }
        assert!(begun.elapsed() <= patience, "{what}: not within {patience:?}:\n{}", list(&violations));
        tokio::time::sleep(EVERY).await;
    }
}

/// Ends the test if anything is wrong.
pub fn hold(what: &str, violations: &[Violation]) {
    assert!(violations.is_empty(), "{what}:\n{}", list(violations));
}

fn list(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("  {violation}\n")).collect()
}
