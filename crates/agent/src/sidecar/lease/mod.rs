//! The lease: a primary takes writes only while most of those who have a say about it were reached a moment ago, and nobody replaces it
//! before that is over. So that a primary that is cut off, or whose machine is lost, can be replaced without two of them taking writes.
//! The reasons are in `docs/adr/0017-a-primary-leads-at-the-word-of-others.md`.
//!
//! * `valkey::cluster::voters` (pure) says who has a say; the operator restarts nobody whose word is needed.
//! * `holder` asks them for our own server, `tenure` (pure) says until when their word counts, `writes` stops and lets go.
//! * `vote` answers others, with what `proto::promises` (pure) remembers.
//! * `suspicion` misses our server's primary, and has our server replace it where most agree.

mod holder;
mod suspicion;
mod tenure;
#[cfg(test)]
mod tests;
mod vote;
mod writes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proto::heartbeat::ServerState;
use proto::promises::Promises;
use tokio::sync::{Notify, watch};
use valkey::cluster::ClusterNodes;

use super::health::Figures;
use super::look::Place;
use super::peers::Peers;
use super::sight::Sight;
use super::takeover::Successor;
use super::voice::Rapport;

/// Between two looks that others make us take.
const STIR_EVERY: Duration = Duration::from_secs(1);

/// How long a word counts, and how long somebody is missed before it is replaced. The second has to be longer: whoever is cut off has
/// the difference to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) lease: Duration,
    pub(super) suspicion: Duration,
}

/// What our server saw last of its cluster.
#[derive(Clone, Default)]
struct View {
    revision: u64,
    table: Arc<ClusterNodes>,
}

/// All that the parts of it share.
pub(super) struct Lease {
    terms: Terms,
    is_on: bool,
    sight: watch::Receiver<Sight>,
    view: Mutex<View>,
    peers: Peers,
    /// Has the server looked at, before it is due.
    stirred: Arc<Notify>,
    last_stirred: Mutex<Option<Instant>>,
    promises: Mutex<Promises>,
}

impl Lease {
    pub(super) fn new(
        terms: Terms,
        is_on: bool,
        sight: watch::Receiver<Sight>,
        peers: Peers,
        stirred: Arc<Notify>,
    ) -> Self {
        let promises = Mutex::new(Promises::new(terms.suspicion, Instant::now()));
        let (view, last_stirred) = (Mutex::default(), Mutex::default());
        Self { terms, is_on, sight, view, peers, stirred, last_stirred, promises }
    }

    /// The table of our server; the last one, while it does not answer. It is read once: others ask many times a second.
    fn table(&self) -> Arc<ClusterNodes> {
        let sight = self.sight.borrow();
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if view.revision != sight.revision
            && let ServerState::Up(server) = &sight.report.server
        {
            *view = View {
                revision: sight.revision,
                table: Arc::new(ClusterNodes::parse(&server.cluster_nodes)),
            };
        }
        view.table.clone()
    }

    /// Whether a server is there that may serve somebody.
    fn has_server(&self) -> bool {
        matches!(
            self.sight.borrow().report.server,
            ServerState::Up(_) | ServerState::Silent | ServerState::Locked
        )
    }

    /// Whether our server would obey us: one that hangs acknowledges nothing either.
    fn can_stop(&self) -> bool {
        matches!(self.sight.borrow().report.server, ServerState::Up(_) | ServerState::Silent)
    }

    /// Have the server looked at soon, and not all the time: where it does not help, nobody should pay for it.
    fn stir(&self) {
        let mut last = self.last_stirred.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= STIR_EVERY) {
            *last = Some(Instant::now());
            self.stirred.notify_one();
        }
    }

    fn promises(&self) -> MutexGuard<'_, Promises> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keep our own lease, and miss our primary, for as long as we live.
pub(super) async fn go_on(
    lease: Arc<Lease>,
    place: Place,
    successor: Arc<Successor>,
    rapport: Rapport,
    figures: Arc<Figures>,
) {
    if !lease.is_on {
        return std::future::pending().await;
    }
    let holding = holder::go_on(lease.clone(), writes::Writes::new(place), rapport.clone(), figures);
    tokio::join!(holding, suspicion::go_on(lease, successor, rapport));
}
