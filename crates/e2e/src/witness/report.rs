//! What a witness saw, as plain data and as a table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::gauge::Gap;
use super::histogram::Histogram;
use super::ledger::{Finding, KeyRecord};
use super::router::Detour;
use super::trouble::Trouble;
use crate::access::Address;

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Writes that were due.
    pub due: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Writes that never succeeded, by what stood in the way last.
    pub failed: BTreeMap<Trouble, u64>,
    /// Those of them that may have arrived unseen.
    pub unknown: u64,
    /// MOVED answers. They are no failures: that is how a cluster tells its clients where to go.
    pub moved: u64,
    /// ASK answers.
    pub asked: u64,
    /// Attempts that were made again, by their reason.
    pub retries: BTreeMap<Trouble, u64>,
    /// How long acknowledged writes took, from the moment they were due.
    pub latency: Histogram,
    /// Findings that later writes met.
    pub findings: Vec<Finding>,
}

impl Tally {
    pub(super) fn detour(&mut self, detour: &Detour) {
        match detour {
            Detour::Moved => self.moved += 1,
            Detour::Asked => self.asked += 1,
            Detour::Retried(trouble) => *self.retries.entry(trouble.clone()).or_default() += 1,
        }
    }

    pub(super) fn acknowledge(&mut self, took: Duration, finding: Option<Finding>) {
        self.acknowledged += 1;
        self.latency.add(took);
        self.findings.extend(finding);
    }

    pub(super) fn fail(&mut self, trouble: Trouble, unknown: bool) {
        *self.failed.entry(trouble).or_default() += 1;
        self.unknown += u64::from(unknown);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.due += other.due;
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.moved += other.moved;
        self.asked += other.asked;
        self.latency.merge(&other.latency);
        self.findings.extend_from_slice(&other.findings);
        for (ours, theirs) in [(&mut self.failed, &other.failed), (&mut self.retries, &other.retries)] {
            for (trouble, count) in theirs {
                *ours.entry(trouble.clone()).or_default() += count;
            }
        }
    }

    /// How many writes never succeeded.
    pub fn failed_operations(&self) -> u64 {
        self.failed.values().sum()
    }

    /// How many attempts were made again.
    pub fn retried_attempts(&self) -> u64 {
        self.retries.values().sum()
    }

    /// How often the cluster sent us elsewhere.
    pub fn redirects(&self) -> u64 {
        self.moved + self.asked
    }
}

/// What was seen of the slots that were one shard when the witness began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardReport {
    /// The slots, as ranges.
    pub slots: String,
    /// Who owned them then.
    pub primary: Address,
    /// What was counted.
    pub tally: Tally,
    /// The longest time without an acknowledged write.
    pub longest_gap: Gap,
    /// Every time of 50 ms or more without one.
    pub long_gaps: Vec<Gap>,
    /// Every acknowledged write that took 250 ms or more, from the moment it was due.
    pub slow_writes: Vec<Gap>,
}

/// What a witness saw. Whether everything is still there says [`Report::verify`].
#[derive(Debug, Clone)]
pub struct Report {
    /// Each shard.
    pub shards: Vec<ShardReport>,
    /// How long it wrote.
    pub duration: Duration,
    /// When the witness itself was late, because the machine had no time for it.
    pub stalls: Vec<Gap>,
    /// Writes a second that were asked for.
    pub rate: u32,
    pub(super) attempt_deadline: Duration,
    pub(super) keys: Vec<KeyRecord>,
}

impl Report {
    /// Everything counted, over all shards.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        self.shards.iter().for_each(|shard| tally.merge(&shard.tally));
        tally
    }

    /// The longest time that any shard was without an acknowledged write.
    pub fn longest_gap(&self) -> Gap {
        self.shards.iter().map(|shard| shard.longest_gap).max().unwrap_or_default()
    }

    /// The longest gap, each without the moments at its edges in which the witness itself was late: a process that waits
    /// for a processor is not the cluster's fault.
    pub fn noticed(&self) -> Duration {
        let gaps = self.shards.iter().flat_map(|shard| &shard.long_gaps);
        let noticed = gaps.map(|gap| gap.without(&self.stalls)).max();
        noticed.unwrap_or(self.longest_gap().length)
    }

    /// The longest time that an acknowledged write took, in the same way.
    pub fn waited(&self) -> Duration {
        let slow = self.shards.iter().flat_map(|shard| &shard.slow_writes);
        slow.map(|write| write.without(&self.stalls)).max().unwrap_or_default()
    }

    /// How late the witness itself was at worst.
    pub fn longest_stall(&self) -> Duration {
        self.stalls.iter().map(|stall| stall.length).max().unwrap_or_default()
    }

    /// Writes a second that were acknowledged.
    pub fn achieved_rate(&self) -> f64 {
        let acknowledged = u32::try_from(self.tally().acknowledged).unwrap_or(u32::MAX);
        f64::from(acknowledged) / self.duration.as_secs_f64().max(f64::EPSILON)
    }

    /// Every key that was written, and what is known of it.
    pub fn keys(&self) -> &[KeyRecord] {
        &self.keys
    }

    /// A client that follows redirections and tries again met no failure.
    pub fn assert_no_failed_operations(&self) {
        let failed = self.tally().failed;
        assert!(failed.is_empty(), "operations failed: {}\n{self}", Counts(&failed));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.shards.iter().map(|shard| shard.slots.len()).max().unwrap_or(0).clamp(5, 40);
        writeln!(
            f,
            "{:width$}  {:>9}  {:>6}  {:>9}  {:>7}  {:>9}  {:>8}  {:>8}  {:>9}",
            "slots", "acked", "failed", "redirects", "retries", "gap ms", "p50 ms", "p99 ms", "max ms"
        )?;
        let mut row = |name: &str, tally: &Tally, gap: Gap| {
            let name: String = name.chars().take(width).collect();
            writeln!(
                f,
                "{name:width$}  {:>9}  {:>6}  {:>9}  {:>7}  {:>9}  {:>8}  {:>8}  {:>9}",
                tally.acknowledged,
                tally.failed_operations(),
                tally.redirects(),
                tally.retried_attempts(),
                gap.length.as_millis(),
                milliseconds(tally.latency.per_mille(500)),
                milliseconds(tally.latency.per_mille(990)),
                milliseconds(tally.latency.longest()),
            )
        };
        for shard in &self.shards {
            row(&shard.slots, &shard.tally, shard.longest_gap)?;
        }
        let (tally, gap) = (self.tally(), self.longest_gap());
        row("all", &tally, gap)?;
        writeln!(
            f,
            "{:.1} s, {:.0} of {} writes/s; longest gap {:.1} s after the first write, {} ms without the witness's own lateness of up to {} ms",
            self.duration.as_secs_f64(),
            self.achieved_rate(),
            self.rate,
            gap.began.as_secs_f64(),
            self.noticed().as_millis(),
            self.longest_stall().as_millis(),
        )?;
        writeln!(f, "redirects: {} MOVED, {} ASK", tally.moved, tally.asked)?;
        writeln!(f, "retries: {}", Counts(&tally.retries))?;
        write!(f, "failed: {}; outcome unknown: {}", Counts(&tally.failed), tally.unknown)
    }
}

fn milliseconds(length: Duration) -> String {
    format!("{:.1}", length.as_secs_f64() * 1000.0)
}

/// `12 CLUSTERDOWN, 3 timeout`.
pub(super) struct Counts<'a>(pub(super) &'a BTreeMap<Trouble, u64>);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let counts: Vec<String> =
            self.0.iter().map(|(trouble, count)| format!("{count} {trouble}")).collect();
        f.write_str(&counts.join(", "))
    }
}
