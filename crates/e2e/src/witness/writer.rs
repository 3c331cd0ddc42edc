//! The writes of one shard: when each is due, who sends it, and what became of it.
//!
//! A shard has a schedule and some writers. The schedule puts the moments at which writes are due into a queue, whatever
//! the writers do; a writer takes one after the other. Each key belongs to one writer, so that there is never more than
//! one write to a key under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use valkey::client::Value;

use super::gauge::{Gap, Gauge};
use super::ledger::KeyRecord;
use super::report::{ShardReport, Tally};
use super::router::Router;
use super::slot_map::as_ranges;
use super::{Settings, hash_slot};
use crate::access::Address;

/// The slots that belonged together when the witness began, and what was seen of them. They stay together here when
/// they move to other servers.
pub(super) struct Shard {
    slots: String,
    primary: Address,
    seen: Mutex<Seen>,
}

struct Seen {
    tally: Tally,
    gauge: Gauge,
}

impl Shard {
    fn new(primary: Address, slots: &[u16], began: Instant) -> Self {
        let seen = Seen { tally: Tally::default(), gauge: Gauge::new(began) };
        Self { slots: as_ranges(slots), primary, seen: Mutex::new(seen) }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn slots(&self) -> &str {
        &self.slots
    }

    pub(super) fn tally(&self) -> Tally {
        self.seen().tally.clone()
    }

    pub(super) fn open_gap(&self, now: Instant) -> Gap {
        self.seen().gauge.open_gap(now)
    }

    pub(super) fn longest_gap(&self, now: Instant) -> Gap {
        self.seen().gauge.longest(now)
    }

    pub(super) fn report(&self, ended: Instant) -> ShardReport {
        let seen = self.seen();
        ShardReport {
            slots: self.slots.clone(),
            primary: self.primary.clone(),
            tally: seen.tally.clone(),
            longest_gap: seen.gauge.longest(ended),
            long_gaps: seen.gauge.long(ended),
            slow_writes: seen.gauge.slow().to_vec(),
        }
    }
}

/// Starts the schedules and writers of all shards.
pub(super) fn start(
    settings: &Settings,
    router: &Arc<Router>,
    run: &str,
    began: Instant,
    stop: &CancellationToken,
) -> (Vec<Arc<Shard>>, Vec<JoinHandle<Vec<KeyRecord>>>) {
    let mut owned: Vec<_> = router.map().shards().into_iter().collect();
    owned.sort_by(|(_, one), (_, other)| one.cmp(other));
    let count = u32::try_from(owned.len()).unwrap_or(u32::MAX).max(1);
    let pace = Duration::from_secs(1) * count / settings.rate;
    let keys = settings.keys.div_ceil(owned.len().max(1));
    let (mut shards, mut writers) = (Vec::new(), Vec::new());
    for (number, (primary, slots)) in (0_u32..).zip(owned) {
        let shard = Arc::new(Shard::new(primary, &slots, began));
        let (sender, queue) = unbounded_channel();
        // Shards take turns, so that the writes of all are spread evenly.
        let first = began + pace * number / count;
        tokio::spawn(schedule(first, pace, sender, shard.clone(), stop.clone()));
        let queue = Arc::new(AsyncMutex::new(queue));
        let names = names(run, &slots, keys);
        for names in names.chunks(names.len().div_ceil(settings.in_flight)) {
            let writer = Writer {
                router: router.clone(),
                shard: shard.clone(),
                deadline: settings.operation_deadline,
                padding: ".".repeat(settings.value_size),
                done: Vec::new(),
            };
            let registers = names.iter().map(Register::new).collect();
            writers.push(tokio::spawn(writer.run(registers, queue.clone())));
        }
        shards.push(shard);
    }
    (shards, writers)
}

/// Names of keys, spread evenly over the slots of a shard.
fn names(run: &str, slots: &[u16], count: usize) -> Vec<(String, u16)> {
    let tags = hash_slot::tags();
    let name = |number: usize| {
        let slot = slots[number * slots.len() / count];
        (format!("{run}:{{{}}}:{number}", tags[usize::from(slot)]), slot)
    };
    (0..count).map(name).collect()
}

/// Says when writes are due, until it is told to stop.
async fn schedule(
    first: Instant,
    pace: Duration,
    queue: UnboundedSender<Instant>,
    shard: Arc<Shard>,
    stop: CancellationToken,
) {
    let mut due = first;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep_until(due) => {}
        }
        // Whoever wakes up late has several to send.
        let now = Instant::now();
        while due <= now {
            if queue.send(due).is_err() {
                return;
            }
            shard.seen().tally.due += 1;
            due += pace;
        }
    }
}

/// A place to write to: one key after the other, the next one when the last must not be written any more.
struct Register {
    name: String,
    slot: u16,
    generation: u32,
    record: KeyRecord,
}

impl Register {
    fn new((name, slot): &(String, u16)) -> Self {
        let record = KeyRecord::new(format!("{name}.0"), *slot);
        Self { name: name.clone(), slot: *slot, generation: 0, record }
    }

    /// Goes on with a fresh key and returns what is known of the old one.
    fn retire(&mut self) -> KeyRecord {
        self.generation += 1;
        let fresh = KeyRecord::new(format!("{}.{}", self.name, self.generation), self.slot);
        std::mem::replace(&mut self.record, fresh)
    }
}

struct Writer {
    router: Arc<Router>,
    shard: Arc<Shard>,
    deadline: Duration,
    padding: String,
    /// Keys that are not written any more.
    done: Vec<KeyRecord>,
}

impl Writer {
    async fn run(
        mut self,
        mut registers: Vec<Register>,
        queue: Arc<AsyncMutex<UnboundedReceiver<Instant>>>,
    ) -> Vec<KeyRecord> {
        let mut turn = 0;
        loop {
            let next = queue.lock().await.recv().await;
            let Some(due) = next else { break };
            self.write(&mut registers[turn], due).await;
            turn = (turn + 1) % registers.len();
        }
        self.done.extend(registers.into_iter().map(|register| register.record));
        self.done
    }

    async fn write(&mut self, register: &mut Register, due: Instant) {
        let record = &mut register.record;
        let value = format!("{}:{}", record.next(), self.padding);
        // The value that was there before tells of a loss that later writes would cover.
        let command = ["SET", &record.key, &value, "GET"];
        let seen = || self.shard.seen();
        let call = self.router.call(record.slot, &command, due + self.deadline, |detour| {
            seen().tally.detour(detour);
        });
        let result = call.await;
        let now = Instant::now();
        let ambiguous = match result {
            Ok(done) => {
                let finding = record.acknowledge(number(&done.value), done.ambiguous);
                let mut seen = seen();
                seen.tally.acknowledge(now.saturating_duration_since(due), finding);
                seen.gauge.success(due, now);
                done.ambiguous
            }
            Err(undone) => {
                record.unknown = undone.ambiguous;
                seen().tally.fail(undone.trouble, undone.ambiguous);
                undone.ambiguous
            }
        };
        if ambiguous {
            self.done.push(register.retire());
        }
    }
}

/// The number a value begins with; 0 where there is none.
pub(super) fn number(value: &Value) -> u64 {
    let Value::BulkString(bytes) = value else { return 0 };
    let text = String::from_utf8_lossy(bytes);
    text.split(':').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spread_over_the_slots_of_a_shard() {
        let slots: Vec<u16> = (100..200).chain(300..400).collect();
        let names = names("run", &slots, 50);
        assert_eq!((names.len(), names[0].1, names[25].1), (50, 100, 300));
        for (name, slot) in &names {
            let tag = name.split(['{', '}']).nth(1).expect("should have a tag");
            assert_eq!(hash_slot::slot_of(tag), *slot, "{name}");
        }
        let few = super::names("run", &[7], 3);
        assert!(few.iter().all(|(_, slot)| *slot == 7) && few[0].0 != few[1].0, "{few:?}");
    }

    #[test]
    fn a_value_begins_with_its_number() {
        for (value, expected) in [("17:....", 17), ("17:", 17), ("x", 0), ("", 0)] {
            assert_eq!(number(&Value::BulkString(value.as_bytes().to_vec())), expected, "{value:?}");
        }
        assert_eq!(number(&Value::Nil), 0);
    }
}
