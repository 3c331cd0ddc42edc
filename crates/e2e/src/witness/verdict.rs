//! Looking for everything that was acknowledged.

use std::fmt;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;

use super::WitnessError;
use super::ledger::Finding;
use super::report::{Report, Tally};
use super::router::{Router, Undone};
use super::writer::number;
use crate::access::Access;

/// Commands under way at once.
const AT_ONCE: usize = 32;
/// How long each command may take: long, because a cluster that heals is no failure here.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many findings a verdict shows.
const SHOWN: usize = 5;

/// What is left of what was acknowledged.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What the witness saw.
    pub report: Report,
    /// Acknowledged writes that are gone, or were gone when a later write came.
    pub lost: u64,
    /// Each key with a loss or with something that should not be there.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Reads every key from the primaries of the cluster, which may have other addresses by now.
    pub async fn verify(mut self, access: &Access) -> Result<Verdict, WitnessError> {
        let router = Router::open(access.clone(), self.attempt_deadline).await?;
        let reads = stream::iter(&mut self.keys).map(|record| async {
            let command = ["GET", &record.key];
            let until = Instant::now() + PATIENCE;
            match router.call(record.slot, &command, until, |_| {}).await {
                Ok(done) => Ok(record.look(number(&done.value))),
                Err(Undone { trouble, .. }) => Err((record.key.clone(), trouble)),
            }
        });
        let results: Vec<_> = reads.buffer_unordered(AT_ONCE).collect().await;
        let mut findings = self.tally().findings;
        let mut unread = Vec::new();
        for result in results {
            match result {
                Ok(finding) => findings.extend(finding),
                Err(failure) => unread.push(failure),
            }
        }
        let count = unread.len();
        if let Some((key, trouble)) = unread.pop() {
            return Err(WitnessError::Unread { count, key, trouble });
        }
        let lost = self.keys.iter().map(super::ledger::KeyRecord::lost).sum();
        Ok(Verdict { report: self, lost, findings })
    }

    /// Removes every key that was written. What cannot be removed is left: the witness has seen worse.
    pub async fn remove_keys(&self, access: &Access) -> Result<(), WitnessError> {
        let router = Router::open(access.clone(), self.attempt_deadline).await?;
        stream::iter(&self.keys)
            .for_each_concurrent(AT_ONCE, |record| async {
                let until = Instant::now() + PATIENCE;
                drop(router.call(record.slot, &["UNLINK", &record.key], until, |_| {}).await);
            })
            .await;
        Ok(())
    }
}

impl Verdict {
    /// Everything counted, over all shards.
    pub fn tally(&self) -> Tally {
        self.report.tally()
    }

    /// Nothing that was acknowledged is gone, and nothing is there that was refused.
    pub fn assert_nothing_lost(&self) {
        assert!(self.lost == 0 && self.findings.is_empty(), "{self}");
    }

    /// No shard was without an acknowledged write for longer.
    pub fn assert_away_at_most(&self, longest: Duration) {
        let gap = self.report.longest_gap().length;
        assert!(gap <= longest, "no write for {gap:?}, longer than {longest:?}\n{self}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.report)?;
        write!(f, "lost: {} of {} acknowledged writes", self.lost, self.tally().acknowledged)?;
        self.findings.iter().take(SHOWN).try_for_each(|finding| write!(f, "\n  {finding}"))?;
        match self.findings.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  … and {more} more"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { key, acknowledged, found: 0 } => {
                write!(f, "{key}: {acknowledged} was acknowledged and the key is gone")
            }
            Self::Lost { key, acknowledged, found } => {
                write!(f, "{key}: {acknowledged} was acknowledged and {found} is there")
            }
            Self::Phantom { key, acknowledged, found } => {
                write!(f, "{key}: {found} is there and only {acknowledged} was acknowledged")
            }
        }
    }
}
