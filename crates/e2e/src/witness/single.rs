//! The witness of one server outside of any cluster: each write has a key of its own, and all of them must be there in the
//! end. It waits for each answer, so it fits servers that acknowledge only what is on their disk.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use valkey::{Connection, Target};

/// Pause between two writes.
const EVERY: Duration = Duration::from_millis(20);
/// Writes before a test goes on.
const FIRST: usize = 50;

/// A running witness.
pub struct Witness {
    stop: CancellationToken,
    task: JoinHandle<Record>,
    prefix: String,
}

/// What a witness saw while it ran.
#[derive(Debug, Default)]
pub struct Record {
    /// Writes that were acknowledged, by key.
    pub acknowledged: BTreeMap<String, String>,
    /// Failed writes by kind of error.
    pub errors: BTreeMap<String, u32>,
    /// Longest time between two acknowledgements.
    pub longest_gap: Duration,
}

/// What is left of what was acknowledged.
#[derive(Debug)]
pub struct Verdict {
    /// How many writes were acknowledged.
    pub acknowledged: usize,
    /// Acknowledged writes that are gone or changed.
    pub lost: Vec<String>,
    /// Failed writes by kind of error.
    pub errors: BTreeMap<String, u32>,
    /// Longest time between two acknowledgements.
    pub longest_gap: Duration,
}

impl Witness {
    /// Start writing to a server. The connection is opened before this returns: what happens afterwards happens to an
    /// open connection.
    pub async fn start(target: Target, prefix: &str) -> Self {
        let connection = Connection::open(&target).await.expect("the witness should reach the server");
        let stop = CancellationToken::new();
        let (counted, mut count) = watch::channel(0);
        let task = tokio::spawn(write(target, connection, prefix.to_owned(), stop.clone(), counted));
        // There must be something to lose before anything happens.
        count.wait_for(|count| *count >= FIRST).await.expect("the witness should not end");
        Self { stop, task, prefix: prefix.to_owned() }
    }

    /// Stop writing and look for every acknowledged write on the server at `target`.
    pub async fn verdict(self, target: &Target) -> Verdict {
        self.stop.cancel();
        let record = self.task.await.expect("the witness should not fail");
        let connection = Connection::open(target).await.expect("the witness should reach the server again");
        let mut lost = Vec::new();
        for (key, value) in &record.acknowledged {
            let found = connection.raw(&["GET", key]).await.expect("should read");
            if format!("{found:?}")
                != format!("{:?}", valkey::client::Value::BulkString(value.clone().into_bytes()))
            {
                lost.push(key.clone());
            }
        }
        let verdict = Verdict {
            acknowledged: record.acknowledged.len(),
            lost,
            errors: record.errors,
            longest_gap: record.longest_gap,
        };
        eprintln!(
            "witness {}: {} acknowledged, {} lost, longest gap {:?}, errors {:?}",
            self.prefix,
            verdict.acknowledged,
            verdict.lost.len(),
            verdict.longest_gap,
            verdict.errors
        );
        verdict
    }
}

impl Verdict {
    /// Nothing that was acknowledged is gone, and there was something to lose.
    pub fn assert_nothing_lost(&self) {
        assert!(
            self.acknowledged >= FIRST,
            "the witness saw too few writes to say anything: {}",
            self.acknowledged
        );
        assert!(
            self.lost.is_empty(),
            "{} of {} acknowledged writes are gone",
            self.lost.len(),
            self.acknowledged
        );
    }
}

async fn write(
    target: Target,
    first: Connection,
    prefix: String,
    stop: CancellationToken,
    counted: watch::Sender<usize>,
) -> Record {
    let mut record = Record::default();
    let mut connection = Some(first);
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    let mut number = 0_u64;
    loop {
        tokio::select! {
            () = stop.cancelled() => return record,
            _ = ticks.tick() => {}
        }
        number += 1;
        let key = format!("{prefix}:{number}");
        let value = format!("v{number}");
        let result = match &connection {
            Some(open) => open.raw(&["SET", &key, &value]).await.map(drop),
            None => match Connection::open(&target).await {
                Ok(open) => {
                    let result = open.raw(&["SET", &key, &value]).await.map(drop);
                    connection = Some(open);
                    result
                }
                Err(error) => Err(error),
            },
        };
        match result {
            Ok(()) => {
                record.longest_gap = record.longest_gap.max(last.elapsed());
                last = Instant::now();
                record.acknowledged.insert(key, value);
                counted.send_replace(record.acknowledged.len());
            }
            Err(error) => {
                *record.errors.entry(kind(&error)).or_insert(0) += 1;
                connection = None;
            }
        }
    }
}

fn kind(error: &valkey::Error) -> String {
    let text = format!("{error:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}
