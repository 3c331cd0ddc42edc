//! Nobody there, or nobody who answers: every call ends in time.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use valkey::client::error::ConnectFailure;
use valkey::testing::{Release, free_port};
use valkey::{Connection, Deadlines, Error, Target};

use crate::support::{RELAXED, eventually, open, start};

const SHORT: Deadlines =
    Deadlines { connect: Duration::from_millis(300), command: Duration::from_millis(300) };

/// Generous to a busy machine, and far below any timeout of a kernel.
const BOUND: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_frozen_server_costs_no_more_than_the_deadline() {
    for release in Release::ALL {
        let server = start(release, "requirepass right");
        let target = server.target().with_credentials(None, "right".into()).with_deadlines(SHORT);
        let impatient = Deadlines { connect: RELAXED.connect, ..SHORT };
        let before = Connection::open(&target.clone().with_deadlines(impatient)).await;
        let before = before.expect("should let us in");
        server.freeze();

        let begin = Instant::now();
        let error = before.ping().await.expect_err("should hang");
        assert!(matches!(&error, Error::Timeout { command, .. } if command == "PING"), "{error:?}");
        assert!(error.is_transient());
        let error = Connection::open(&target).await.expect_err("should hang in AUTH");
        assert!(matches!(error, Error::Connect { reason: ConnectFailure::Timeout, .. }), "{error:?}");
        assert!(begin.elapsed() >= SHORT.command + SHORT.connect && begin.elapsed() < BOUND);

        server.thaw();
        // The late answers belong to commands nobody waits for; the connection goes on.
        Connection::open(&target.with_deadlines(RELAXED)).await.expect("should let us in again");
        eventually("the old connection answers again", || async { before.ping().await.ok() }).await;
    }
}

#[tokio::test]
async fn a_closed_port_is_refused() {
    let target = Target::tcp("127.0.0.1", free_port().expect("should find a port"));
    let error = Connection::open(&target).await.expect_err("should find nobody");
    assert!(matches!(error, Error::Connect { reason: ConnectFailure::Refused, .. }), "{error:?}");
    assert!(error.to_string().contains(&target.endpoint.to_string()), "{error}");
}

#[tokio::test]
async fn a_missing_socket_and_a_missing_name_are_unreachable() {
    for target in [Target::unix("/nowhere/valkey.sock"), Target::tcp("no-such-host.invalid", 6379)] {
        let target = target.with_deadlines(Deadlines { connect: Duration::from_secs(10), ..SHORT });
        let error = Connection::open(&target).await.expect_err("should find nobody");
        assert!(matches!(error, Error::Connect { reason: ConnectFailure::Unreachable, .. }), "{error:?}");
    }
}

/// A listener that never accepts stands for a black hole that needs no network: the kernel shakes hands, nobody reads.
#[tokio::test]
async fn a_black_hole_costs_no_more_than_the_deadline() {
    let hole = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("should listen");
    let port = hole.local_addr().expect("should have an address").port();
    let begin = Instant::now();
    let target = Target::tcp("127.0.0.1", port).with_deadlines(SHORT);
    let connection = Connection::open(&target).await.expect("should shake hands");
    let error = connection.ping().await.expect_err("should hang");
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    let error = Connection::open(&target.with_credentials(None, "x".into())).await.expect_err("should hang");
    assert!(matches!(error, Error::Connect { reason: ConnectFailure::Timeout, .. }), "{error:?}");
    assert!(begin.elapsed() < BOUND);
}

/// Addresses of TEST-NET-1 are routed nowhere: either the network says so, or it says nothing until the deadline.
#[tokio::test]
async fn an_address_nobody_has_costs_no_more_than_the_deadline() {
    let begin = Instant::now();
    let target = Target::tcp("192.0.2.1", 6379).with_credentials(None, "x".into()).with_deadlines(SHORT);
    let error = Connection::open(&target).await.expect_err("should find nobody");
    assert!(error.is_transient() && begin.elapsed() < BOUND, "{error:?}");
}

#[tokio::test]
async fn a_killed_server_is_noticed_at_once() {
    for release in Release::ALL {
        let mut server = start(release, "");
        let connection = open(&server).await;
        connection.ping().await.expect("should answer");
        server.kill();
        let begin = Instant::now();
        let error = connection.ping().await.expect_err("should be gone");
        assert!(matches!(error, Error::Disconnected { .. }), "{error:?}");
        assert!(begin.elapsed() < Duration::from_secs(2));
    }
}

/// Something listens, but it is no Valkey.
#[tokio::test]
async fn nonsense_is_a_protocol_error() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("should listen");
    let port = listener.local_addr().expect("should have an address").port();
    let speaker = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("should accept");
        let _ = stream.read(&mut [0; 64]).await;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("should write");
        let _ = stream.read(&mut [0; 64]).await;
    });
    let connection = Connection::open(&Target::tcp("127.0.0.1", port)).await.expect("should shake hands");
    let error = connection.ping().await.expect_err("should not understand");
    assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    speaker.abort();
}
