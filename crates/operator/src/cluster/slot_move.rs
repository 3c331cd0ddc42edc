//! Moving slots one by one, for servers that cannot do it by themselves. After every word an operator that starts anew
//! finds enough at the servers to go on: a slot is open at both ends until its last key has arrived.

use std::time::Duration;

use secrecy::SecretString;
use snafu::{ResultExt as _, Snafu, ensure};
use tokio::time::Instant;
use valkey::client::SetSlot;
use valkey::{Connection, Error, SlotRange};

/// How long a pass moves slots between two servers; a pass that lasts would keep everything else waiting.
const WORK_FOR: Duration = Duration::from_secs(2);
/// How long the source waits for the target to take a key. It serves nobody meanwhile, and must not look dead.
const KEY_WITHIN: Duration = Duration::from_secs(2);
/// Keys sent at once before it is known how large they are.
const FIRST_BATCH: u32 = 8;
/// Keys sent at once, however small they are.
const LARGEST_BATCH: u32 = 512;
/// The source serves nobody while it sends keys: a batch that takes longer than this is too large.
const LONG: Duration = Duration::from_millis(50);
/// A batch that takes less than this could be larger.
const SHORT: Duration = Duration::from_millis(10);

/// Somebody who hears of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Target,
    /// Every primary that is neither.
    Others,
}

/// What there is to hear of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It comes in from the source.
    Importing,
    /// It leaves for the target.
    Migrating,
    /// It belongs to the target.
    Moved,
}

/// The servers of a move.
pub(super) trait Ends {
    type Error;

    async fn tell(&self, end: End, slot: u16, word: Word) -> Result<(), Self::Error>;

    /// Up to so many keys of a slot that are still at the source.
    async fn keys(&self, slot: u16, count: u32) -> Result<Vec<Vec<u8>>, Self::Error>;

    /// Send keys from the source to the target, and say how long that took.
    async fn send(&self, keys: &[Vec<u8>]) -> Result<Duration, Self::Error>;

    /// Whether this pass may still begin something.
    fn has_time(&self) -> bool;
}

/// Move slots, in order, until all have moved or the time is over.
pub(super) async fn carry<E: Ends>(ends: &E, ranges: &[SlotRange]) -> Result<(), E::Error> {
    let mut batch = FIRST_BATCH;
    for slot in ranges.iter().flat_map(|range| range.start()..=range.end()) {
        if !ends.has_time() || !carry_one(ends, slot, &mut batch).await? {
            break;
        }
    }
    Ok(())
}

/// Whether the slot has moved.
async fn carry_one<E: Ends>(ends: &E, slot: u16, batch: &mut u32) -> Result<bool, E::Error> {
    // The target first: it must expect those whom the source sends to it.
    ends.tell(End::Target, slot, Word::Importing).await?;
    ends.tell(End::Source, slot, Word::Migrating).await?;
    loop {
        let keys = ends.keys(slot, *batch).await?;
        if keys.is_empty() {
            break;
        }
        if !ends.has_time() {
            return Ok(false);
        }
        *batch = adapted(*batch, ends.send(&keys).await?);
    }
    // The target first: were the source the first, both would send clients to each other.
    for end in [End::Target, End::Source, End::Others] {
        ends.tell(end, slot, Word::Moved).await?;
    }
    Ok(true)
}

/// How many keys to send next, after so many took so long.
fn adapted(batch: u32, took: Duration) -> u32 {
    match took {
        _ if took > LONG => (batch / 2).max(1),
        _ if took < SHORT => (batch * 2).min(LARGEST_BATCH),
        _ => batch,
    }
}

/// A server of a move.
pub(super) struct Party {
    pub(super) id: String,
    pub(super) connection: Connection,
}

/// Servers that are connected.
pub(super) struct Connected {
    pub(super) source: Party,
    pub(super) target: Party,
    /// Where the source finds the target.
    pub(super) target_address: (String, u16),
    pub(super) others: Vec<Connection>,
    /// As whom the source logs in at the target.
    pub(super) login: Option<(&'static str, SecretString)>,
    pub(super) until: Instant,
}

impl Connected {
    /// When a move that begins now has to pause.
    pub(super) fn pause() -> Instant {
        Instant::now() + WORK_FOR
    }
}

impl Ends for Connected {
    type Error = Error;

    async fn tell(&self, end: End, slot: u16, word: Word) -> Result<(), Error> {
        let word = match word {
            Word::Importing => SetSlot::Importing(&self.source.id),
            Word::Migrating => SetSlot::Migrating(&self.target.id),
            Word::Moved => SetSlot::Node(&self.target.id),
        };
        match end {
            End::Source => self.source.connection.cluster_set_slot(slot, word).await,
            End::Target => self.target.connection.cluster_set_slot(slot, word).await,
            End::Others => {
                let told = self.others.iter().map(|other| other.cluster_set_slot(slot, word));
                // Whoever does not listen hears it from the target itself.
                futures::future::join_all(told).await;
                Ok(())
            }
        }
    }

    async fn keys(&self, slot: u16, count: u32) -> Result<Vec<Vec<u8>>, Error> {
        self.source.connection.cluster_keys_in_slot(slot, count).await
    }

    async fn send(&self, keys: &[Vec<u8>]) -> Result<Duration, Error> {
        let (host, port) = &self.target_address;
        let login = self.login.as_ref().map(|(user, password)| (*user, password));
        let within = u64::try_from(KEY_WITHIN.as_millis()).unwrap_or(u64::MAX);
        let began = Instant::now();
        self.source.connection.migrate_keys(host, *port, keys, within, login).await?;
        Ok(began.elapsed())
    }

    fn has_time(&self) -> bool {
        Instant::now() < self.until
    }
}

/// Why a slot stays open.
#[derive(Debug, Snafu)]
pub(super) enum CloseError {
    #[snafu(display("failed to close slot {slot}"))]
    Tell { slot: u16, source: Error },
    #[snafu(display("failed to close slot {slot}: keys of it came in meanwhile"))]
    KeysCameIn { slot: u16 },
}

/// Let slots neither come nor leave any more. What is imported is looked at once more, because keys in a slot that is
/// somebody else's are out of reach.
pub(super) async fn close(connection: &Connection, slots: &[u16]) -> Result<(), CloseError> {
    for slot in slots.iter().copied() {
        let table = connection.cluster_nodes().await.context(TellSnafu { slot })?;
        let imports = table.myself().is_some_and(|node| node.importing.iter().any(|one| one.slot == slot));
        if imports {
            let keys = connection.cluster_count_keys_in_slot(slot).await.context(TellSnafu { slot })?;
            ensure!(keys == 0, KeysCameInSnafu { slot });
        }
        connection.cluster_set_slot(slot, SetSlot::Stable).await.context(TellSnafu { slot })?;
    }
    Ok(())
}

/// Let a server know that slots are another one's.
pub(super) async fn give_up(connection: &Connection, slots: &[u16], owner: &str) -> Result<(), Error> {
    for slot in slots {
        connection.cluster_set_slot(*slot, SetSlot::Node(owner)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_follows_the_size_of_its_keys() {
        for (batch, milliseconds, next) in
            [(8, 1, 16), (8, 20, 8), (8, 60, 4), (1, 5000, 1), (300, 0, 512), (512, 0, 512), (512, 51, 256)]
        {
            let took = Duration::from_millis(milliseconds);
            assert_eq!(adapted(batch, took), next, "{batch} in {milliseconds} ms");
        }
    }
}
