//! `sidecar`: beside the server for as long as the pod lives. It looks at the server from inside, where nothing is in between, and
//! tells the operator what it sees: now and then that nothing changed, and at once what did.
//!
//! * `pulse` knows at once when the server ends or is back.
//! * `look` asks it, and `sight` (pure) says whether what is seen is anything new.
//! * `voice` decides when to speak, `post` says it over a channel, with what `papers` holds.
//! * `health` answers the kubelet and Prometheus.
//! * `answer` lets in whom `bell` admits, and `verbs` are what they can ask; `peers` asks the agents beside other servers.
//! * `steward` does what the operator orders: it sets the `directives` (pure) that may be set, and has the users file loaded.
//! * `takeover` sees to it that a primary that died is replaced at once.
//! * `lease` stops the writes of a primary that is cut off, and replaces one that is gone.
//! * `reunion` brings servers together again whose pods have moved.
//!
//! Nothing here changes anything in the server, but for these four, and nothing waits for the operator: it may be away.

mod answer;
mod bell;
mod complaints;
mod directives;
mod health;
mod lease;
mod look;
mod papers;
mod peers;
mod post;
mod pulse;
mod reunion;
mod sight;
mod steward;
mod takeover;
mod verbs;
mod voice;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use channel::Door;
use snafu::{ResultExt as _, Snafu};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::bell::Bell;
use self::complaints::Complaints;
use self::health::Figures;
use self::lease::{Lease, Terms};
use self::look::{Place, Told};
use self::papers::Wallet;
use self::peers::Peers;
use self::sight::Sight;
use self::steward::Steward;
use self::takeover::Successor;
use self::verbs::Verbs;
use crate::args::{SidecarArgs, Switch};
use crate::say;

/// Events that wait to be told. More than these happen only if nobody listens, who then sees the last state anyhow.
const EVENTS: usize = 16;

/// Deaths that wait to be seen to: a server that dies again while somebody takes over from it had come back before.
const DEATHS: usize = 1;

/// For the last of them, and for somebody to take over, when we are told to stop. Where all pods are deleted together nobody can, and
/// whoever deletes them waits for us.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// No lease is shorter: a question is asked again after 0.7 s, and may take as long.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);

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
    /// There is no door for callers.
    #[snafu(display("failed to prepare TLS"))]
    PrepareDoor {
        /// Why.
        source: rustls::Error,
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

/// Wait for what is still to be said, and for somebody to take over, for a moment.
async fn last_words(figures: &Figures) {
    let end = Instant::now() + LAST_WORDS;
    while !(figures.is_all_said() && figures.is_succession_over()) && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn terms(args: &SidecarArgs) -> Terms {
    // Questions have to be answered before the word is over, and whoever is cut off must have stopped before anybody misses it, whatever
    // was asked for.
    let lease = args.lease.max(SHORTEST_LEASE);
    Terms { lease, suspicion: args.suspicion.max(lease + lease / 2) }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.context(ListenSnafu { address })
}

async fn live(args: &SidecarArgs) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).context(ListenForSignalsSnafu)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(ListenForSignalsSnafu)?;
    let health = listen(args.health).await?;
    let grpc = listen(args.grpc).await?;
    let wallet = Wallet::shared(args.mtls.clone());
    let door = Door::new(Arc::new(Bell(wallet.clone()))).context(PrepareDoorSnafu)?;
    let figures = Arc::new(Figures::default());
    let (seen, sight) = watch::channel(Sight::default());
    let (happened, events) = mpsc::channel(EVENTS);
    let (died, deaths) = mpsc::channel(DEATHS);
    let takes_over = args.failover == Switch::On;
    let told = Told { operator: happened, successors: takes_over.then_some(died) };
    let place = Place::of(args);
    let peers = Peers::of(args, wallet);
    let successor = Arc::new(Successor::new(place.clone(), takes_over, figures.clone()));
    let stirred = Arc::new(Notify::new());
    let lease = Arc::new(Lease::new(terms(args), takes_over, sight.clone(), peers.clone(), stirred.clone()));
    let verbs = Arc::new(Verbs {
        successor: successor.clone(),
        lease: lease.clone(),
        steward: Steward::of(args),
        figures: figures.clone(),
        complaints: Complaints::default(),
    });
    let (rapport, ear) = voice::rapport();
    // They end with this function.
    let mut parts = JoinSet::new();
    parts.spawn(pulse::feel(args.places.run.clone(), stirred.clone()));
    parts.spawn(reunion::go_on(sight.clone(), peers.clone(), place.clone(), figures.clone()));
    parts.spawn(lease::go_on(lease, place.clone(), successor, rapport, figures.clone()));
    parts.spawn(look::go_on(place, seen, told, stirred, figures.clone()));
    if takes_over {
        parts.spawn(takeover::go_on(deaths, sight.clone(), peers, figures.clone()));
    }
    parts.spawn(voice::speak(voice::Listener::of(args), sight, events, ear, figures.clone()));
    parts.spawn(health::serve(health, figures.clone()));
    parts.spawn(answer::serve(grpc, door, verbs, figures.clone()));
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
