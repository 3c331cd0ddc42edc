//! `sidecar`: beside the server for as long as the pod lives. It looks at the server from inside, where nothing is in between, and
//! tells the operator what it sees: now and then that nothing changed, and at once what did.
//!
//! * `pulse` knows at once when the server ends or is back.
//! * `look` asks it, and `sight` (pure) says whether what is seen is anything new.
//! * `voice` decides when to speak, `post` says it over a channel, with what `papers` holds.
//! * `health` answers the kubelet and Prometheus.
//!
//! Nothing here ever changes anything in the server, and nothing waits for the operator: it may be away.

mod health;
mod look;
mod papers;
mod post;
mod pulse;
mod sight;
mod voice;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use snafu::{ResultExt as _, Snafu};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::health::Figures;
use self::sight::Sight;
use crate::args::SidecarArgs;
use crate::say;

/// Events that wait to be told. More than these happen only if nobody listens, who then sees the last state anyhow.
const EVENTS: usize = 16;

/// For the last of them, when we are told to stop.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why there is no sidecar.
#[derive(Debug, Snafu)]
pub(crate) enum Error {
    /// The system has no room for us.
    #[snafu(display("failed to start the runtime"))]
    StartRuntime {
        /// Why.
        source: io::Error,
    },
    /// Nobody could tell us to stop.
    #[snafu(display("failed to listen for signals"))]
    ListenForSignals {
        /// Why.
        source: io::Error,
    },
    /// The address is taken or not ours.
    #[snafu(display("failed to listen on {address}"))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// Runs until it is told to stop.
pub(crate) fn run(args: &SidecarArgs) -> Result<(), Error> {
    // One thread: the work is waiting, and this runs in every pod.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context(StartRuntimeSnafu)?;
    runtime.block_on(live(args))
}

/// Wait for what is still to be said, for a moment.
async fn last_words(figures: &Figures) {
    let end = Instant::now() + LAST_WORDS;
    while !figures.is_all_said() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn live(args: &SidecarArgs) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).context(ListenForSignalsSnafu)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(ListenForSignalsSnafu)?;
    let address = args.health;
    let listener = TcpListener::bind(address).await.context(ListenSnafu { address })?;
    let figures = Arc::new(Figures::default());
    let (seen, sight) = watch::channel(Sight::default());
    let (happened, events) = mpsc::channel(EVENTS);
    let stirred = Arc::new(Notify::new());
    // They end with this function.
    let mut parts = JoinSet::new();
    parts.spawn(pulse::feel(args.places.run.clone(), stirred.clone()));
    parts.spawn(look::go_on(look::Place::of(args), seen, happened, stirred, figures.clone()));
    parts.spawn(voice::speak(voice::Listener::of(args), sight, events, figures.clone()));
    parts.spawn(health::serve(listener, figures.clone()));
    say("watching the server");
    tokio::select! {
        // The server has just ended, and somebody may want to know.
        _ = terminate.recv() => last_words(&figures).await,
        _ = interrupt.recv() => {}
        // None of them ends by itself: without one of them we are of no use, and are started again.
        _ = parts.join_next() => say("a part of this program ended"),
    }
    say("stopped");
    Ok(())
}
