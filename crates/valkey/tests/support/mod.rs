//! What the tests share: servers of each release, connections, certificates, patience.

pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod guards;
pub(crate) mod keys;

use std::time::Duration;

pub(crate) use valkey::testing::eventually;
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
