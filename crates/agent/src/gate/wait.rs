//! Waiting until peers tell that somebody took over: bounded, and given up at once when the pod is to stop.

use std::io;
use std::time::Duration;

use snafu::{ResultExt as _, Snafu};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};
use valkey::cluster::Address;

use super::peers::{Access, Round};
use super::start_rule::{Decision, Facts, Reason, decide};
use crate::say;

/// Between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(250);

/// Why there was no waiting.
#[derive(Debug, Snafu)]
pub(crate) enum WaitError {
    /// The system has no room for us.
    #[snafu(display("failed to start the runtime"))]
    StartRuntime {
        /// Why.
        source: io::Error,
    },
    /// The first process of a container gets only those signals it listens for.
    #[snafu(display("failed to listen for SIGTERM"))]
    Listen {
        /// Why.
        source: io::Error,
    },
}

/// How waiting ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The server may start.
    Decided(Reason),
    /// The pod is to stop.
    Stopped,
}

/// Waits until the rule lets the server start, at most for `limit`.
pub(super) fn until_decided(
    facts: &Facts<'_>,
    peers: &[Address],
    access: &Access,
    limit: Duration,
) -> Result<Ended, WaitError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context(StartRuntimeSnafu)?;
    runtime.block_on(async {
        let mut stop = signal(SignalKind::terminate()).context(ListenSnafu)?;
        tokio::select! {
            biased;
            _ = stop.recv() => Ok(Ended::Stopped),
            reason = ask_until_decided(facts, peers, access, limit) => {
                Ok(if was_told(&mut stop).await { Ended::Stopped } else { Ended::Decided(reason) })
            }
        }
    })
}

/// A signal that came at the very end would be lost: the server knows nothing of what we received.
async fn was_told(stop: &mut Signal) -> bool {
    timeout(Duration::from_millis(1), stop.recv()).await.is_ok()
}

async fn ask_until_decided(facts: &Facts<'_>, peers: &[Address], access: &Access, limit: Duration) -> Reason {
    say(&format!(
        "waiting: this server was a primary, its process ended, and its replicas may have more than its disk; \
         asking {} peers for at most {limit:?} whether one of them took over",
        peers.len()
    ));
    let begin = Instant::now();
    let mut last = Round::default();
    // Whoever is slow must not carry us over the limit.
    let asking = timeout(limit, async {
        loop {
            last = access.ask(peers).await;
            if let Decision::Start(reason) = decide(&Facts { heard: &last.tables, ..*facts }) {
                return reason;
            }
            sleep(PAUSE).await;
        }
    });
    if let Ok(reason) = asking.await {
        say(&format!("starting as it was after {:.1?}: {reason}", begin.elapsed()));
        return reason;
    }
    let reason = Reason::NobodyTookOver { within: limit };
    say(&format!(
        "starting as it was: {reason}; {} peers answered, {} did not{}",
        last.tables.len(),
        last.failures.len(),
        last.failures.iter().map(|failure| format!("; {failure}")).collect::<String>(),
    ));
    reason
}
