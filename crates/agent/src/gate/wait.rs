//! Waiting until peers tell that somebody took over: bounded, unless a start would cost them their data, and given up at once when
//! the pod is to stop.

use std::io;
use std::time::Duration;

use snafu::{ResultExt as _, Snafu};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};
use valkey::cluster::Address;

use super::peers::{Access, Round};
use super::start_rule::{Decision, Facts, Reason, decide, is_followed};
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

/// Waits until the rule lets the server start: at most for `limit`, or for as long as a stranger would be copied from.
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
    let lacks = if facts.is_stranger() { "its data is gone" } else { "its disk may lack the last writes" };
    say(&format!(
        "waiting: this server was a primary, its process ended, {lacks}, and its replicas have more; \
         asking {} peers for at most {limit:?} whether one of them took over",
        peers.len()
    ));
    let begin = Instant::now();
    let mut heard = Heard::default();
    loop {
        heard.follower = false;
        // Whoever is slow must not carry us over the limit.
        if let Ok(reason) = timeout(limit, ask_on(facts, peers, access, &mut heard)).await {
            say(&format!("{reason}, after {:.1?}", begin.elapsed()));
            return reason;
        }
        if !(facts.is_stranger() && heard.follower) {
            break;
        }
        // Nobody but the operator or a person can help it: whatever limit there is would only destroy what is left.
        say("waiting on: a replica would copy from the empty server, and lose what it has");
    }
    say(&format!(
        "{} peers answered, {} did not{}",
        heard.last.tables.len(),
        heard.last.failures.len(),
        heard.last.failures.iter().map(|failure| format!("; {failure}")).collect::<String>(),
    ));
    Reason::NobodyTookOver { within: limit }
}

/// What peers said.
#[derive(Default)]
struct Heard {
    last: Round,
    /// Somebody followed us in any of the rounds: whoever does may be too busy to say so in the last one.
    follower: bool,
}

/// Asks until the rule decides. What was heard stays, whenever it is cut off.
async fn ask_on(facts: &Facts<'_>, peers: &[Address], access: &Access, heard: &mut Heard) -> Reason {
    loop {
        heard.last = access.ask(peers).await;
        let facts = Facts { heard: &heard.last.tables, ..*facts };
        if let Decision::Start(reason) = decide(&facts) {
            return reason;
        }
        heard.follower |= is_followed(&facts);
        sleep(PAUSE).await;
    }
}
