//! What the tests share: servers of each release, connections, certificates, patience.

pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod guards;
pub(crate) mod keys;

use std::future::Future;
use std::time::{Duration, Instant};

use valkey::testing::{Release, Server, StartError};
use valkey::{Connection, Deadlines, Error, Target};

/// A busy machine must not fail tests that are not about time.
pub(crate) const RELAXED: Deadlines =
    Deadlines { connect: Duration::from_secs(10), command: Duration::from_secs(10) };

pub(crate) fn start(release: Release, conf: &str) -> Server {
    running(Server::start(release, conf))
}

/// A server that is missing fails the test in the words of the error, which say what to run.
#[expect(clippy::panic, reason = "this is a test, which the lint sees only in functions marked as one")]
pub(crate) fn running(server: Result<Server, StartError>) -> Server {
    server.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) async fn open(server: &Server) -> Connection {
    connect(server.target()).await.expect("should let us in")
}

pub(crate) async fn connect(target: Target) -> Result<Connection, Error> {
    Connection::open(&target.with_deadlines(RELAXED)).await
}

/// Waits until the answer is there, for what a server does in its own time.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = look().await {
            return answer;
        }
        assert!(Instant::now() < end, "did not happen in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
