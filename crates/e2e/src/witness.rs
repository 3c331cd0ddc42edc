//! The witness: a writer at a fixed rate that remembers every write a cluster acknowledged, and afterwards looks for each
//! of them.
//!
//! The schedule does not wait for answers: a write that was due at some moment counts from that moment, however late it
//! was sent, so a stall costs what it would have cost the users of a busy cluster. The witness speaks the cluster
//! protocol itself, on connections that were opened before anything happened: it follows MOVED and ASK, learns the
//! slots again when something is wrong, and tries again until a write's time is over, as a good client does; and it
//! counts all of that.
//!
//! ```no_run
//! # async fn example(access: e2e::access::Access) -> Result<(), e2e::witness::WitnessError> {
//! use e2e::witness::{Settings, Witness};
//!
//! let witness = Witness::start(Settings::new(access.clone())).await?;
//! // … something happens …
//! let verdict = witness.stop().await.verify(&access).await?;
//! println!("{verdict}");
//! verdict.assert_nothing_lost();
//! # Ok(()) }
//! ```

mod gauge;
mod hash_slot;
mod histogram;
mod ledger;
mod links;
mod report;
mod router;
pub mod single;
pub(crate) mod slot_map;
mod stall;
mod trouble;
mod verdict;
mod writer;

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use gauge::Gap;
pub use hash_slot::{slot_of, tags};
pub use histogram::Histogram;
pub use ledger::{Finding, KeyRecord};
pub use report::{Report, ShardReport, Tally};
use router::Router;
use snafu::{ResultExt as _, Snafu};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
pub use trouble::Trouble;
pub use verdict::Verdict;
use writer::Shard;

use crate::access::{Access, Address};

/// Acknowledged writes of each shard before a test goes on: there must be something to lose.
const FIRST: u64 = 10;
/// How long these may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the witness does.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cluster. A server outside of any cluster is taken as one shard.
    pub access: Access,
    /// Writes a second, over all shards.
    pub rate: u32,
    /// Keys, over all shards; each shard gets its share, spread over its slots.
    pub keys: usize,
    /// Bytes of a value, at least.
    pub value_size: usize,
    /// How long a write is tried again, from the moment it was due; one that never succeeds has failed.
    pub operation_deadline: Duration,
    /// How long one attempt may wait for a connection, and for an answer.
    pub attempt_deadline: Duration,
    /// Writes under way at once in each shard. Those that are due beyond it wait, and their time counts.
    pub in_flight: usize,
    /// What keys begin with.
    pub prefix: String,
}

impl Settings {
    /// What suits most tests.
    pub fn new(access: Access) -> Self {
        Self {
            access,
            rate: 500,
            keys: 600,
            value_size: 64,
            operation_deadline: Duration::from_secs(5),
            attempt_deadline: Duration::from_secs(1),
            in_flight: 32,
            prefix: "witness".to_owned(),
        }
    }
}

/// Why there is nothing to report.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub(super)))]
pub enum WitnessError {
    /// No seed answered.
    #[snafu(display("failed to learn the slots of the cluster from any of {seeds}"))]
    Seeds {
        /// Whom we asked.
        seeds: String,
    },
    /// The cluster is not whole, so that most of what follows would be its fault.
    #[snafu(display("failed to find an owner for every slot: only {covered} of 16384 have one"))]
    Uncovered {
        /// How many have one.
        covered: usize,
    },
    /// The system did not let us.
    #[snafu(display("failed to start the thread of the witness"))]
    Thread {
        /// Why.
        source: io::Error,
    },
    /// Nothing to do.
    #[snafu(display("failed to plan the writes: rate, keys and writes in flight must be at least 1"))]
    Idle,
    /// A shard takes no writes.
    #[snafu(display(
        "failed to see {FIRST} acknowledged writes to slots {slots} within {PATIENCE:?}: {trouble}"
    ))]
    Silent {
        /// Its slots.
        slots: String,
        /// What stood in the way.
        trouble: String,
    },
    /// Keys could not be read back.
    #[snafu(display("failed to read {count} keys back, {key} among them: {trouble}"))]
    Unread {
        /// How many.
        count: usize,
        /// One of them.
        key: String,
        /// Why.
        trouble: Trouble,
    },
}

/// A running witness. Dropped without [`Witness::stop`] it stops writing, and nobody learns what it saw.
pub struct Witness {
    settings: Settings,
    began: Instant,
    shards: Vec<Arc<Shard>>,
    writers: Vec<JoinHandle<Vec<KeyRecord>>>,
    stalls: JoinHandle<Vec<Gap>>,
    router: Arc<Router>,
    stop: CancellationToken,
    _guard: DropGuard,
    _thread: OwnThread,
}

/// The witness has a thread of its own: whatever a test does meanwhile on its thread, as freezing a container, must not
/// look like a stall of the servers.
struct OwnThread(Option<Runtime>);

impl OwnThread {
    fn start() -> Result<Self, WitnessError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("witness")
            .enable_all()
            .build();
        Ok(Self(Some(runtime.context(ThreadSnafu)?)))
    }

    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self.0.as_ref().expect("should run until it is dropped");
        runtime.spawn(work).await.expect("the witness should not fail")
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        // In the background: the thread that drops it may have others to serve.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// What the witness has seen so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Since the first write.
    pub elapsed: Duration,
    /// Everything counted so far, over all shards.
    pub tally: Tally,
    /// The longest time that any shard has been without a success up to now.
    pub silence: Duration,
    /// The longest time that any shard ever was without a success.
    pub longest_gap: Duration,
}

impl Witness {
    /// Opens all connections, starts writing and returns once every shard has acknowledged some writes.
    pub async fn start(settings: Settings) -> Result<Self, WitnessError> {
        if settings.rate == 0 || settings.keys == 0 || settings.in_flight == 0 {
            return Err(WitnessError::Idle);
        }
        let thread = OwnThread::start()?;
        let stop = CancellationToken::new();
        let (plan, stopping) = (settings.clone(), stop.clone());
        let first_steps = async move {
            let router = Router::open(plan.access.clone(), plan.attempt_deadline).await?;
            // Finding them takes a moment, which must not count as a stall.
            hash_slot::tags();
            let began = Instant::now();
            let router = Arc::new(router);
            let (shards, writers) = writer::start(&plan, &router, &run_name(&plan), began, &stopping);
            let stalls = tokio::spawn(stall::stretches(began, stopping));
            Ok((began, shards, writers, stalls, router))
        };
        let (began, shards, writers, stalls, router) = thread.run(first_steps).await?;
        let guard = stop.clone().drop_guard();
        let witness =
            Self { settings, began, shards, writers, stalls, router, stop, _guard: guard, _thread: thread };
        witness.see_first_writes().await?;
        Ok(witness)
    }

    async fn see_first_writes(&self) -> Result<(), WitnessError> {
        for shard in &self.shards {
            while shard.tally().acknowledged < FIRST {
                if self.began.elapsed() > PATIENCE {
                    let (slots, tally) = (shard.slots().to_owned(), shard.tally());
                    let met = tally.failed.keys().chain(tally.retries.keys());
                    let trouble = met.map(ToString::to_string).collect::<Vec<_>>().join(", ");
                    return Err(WitnessError::Silent { slots, trouble });
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(())
    }

    /// The cluster can be found at these addresses from now on: clients resolve its name again, and so must a witness
    /// whose cluster moves to other addresses all at once.
    pub fn found_at(&self, seeds: impl IntoIterator<Item = Address>) {
        self.router.found_at(seeds);
    }

    /// What was seen so far.
    pub fn progress(&self) -> Progress {
        let now = Instant::now();
        let mut tally = Tally::default();
        self.shards.iter().for_each(|shard| tally.merge(&shard.tally()));
        let longest = |gap: fn(&Shard, Instant) -> Gap| {
            self.shards.iter().map(|shard| gap(shard, now).length).max().unwrap_or_default()
        };
        Progress {
            elapsed: now - self.began,
            tally,
            silence: longest(Shard::open_gap),
            longest_gap: longest(Shard::longest_gap),
        }
    }

    /// Stops writing, waits until every write under way has come to its end, and tells what was seen.
    pub async fn stop(self) -> Report {
        self.stop.cancel();
        let ended = Instant::now();
        let mut keys = Vec::new();
        for written in futures::future::join_all(self.writers).await {
            keys.extend(written.expect("a writer of the witness should not fail"));
        }
        Report {
            stalls: self.stalls.await.expect("a clock of the witness should not fail"),
            shards: self.shards.iter().map(|shard| shard.report(ended)).collect(),
            duration: ended - self.began,
            rate: self.settings.rate,
            attempt_deadline: self.settings.attempt_deadline,
            keys,
        }
    }
}

/// Different for every run, so that nobody finds the keys of another one.
fn run_name(settings: &Settings) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{:x}-{:x}", settings.prefix, since.as_millis(), std::process::id())
}
