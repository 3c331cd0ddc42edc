//! Bringing servers together again whose pods have moved. Servers know each other by address: if all of them move at once, nobody finds
//! anybody any more. Names stay, so agents look for whom their server has lost by name, make sure that it is just this one, and
//! introduce it again. Nobody else is needed for it; what servers do with the introduction is their own business.

mod lost;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::heartbeat::ServerState;
use snafu::{ResultExt as _, Snafu, ensure};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use valkey::cluster::ClusterNodes;
use valkey::{Connection, Deadlines};

use self::lost::{Lost, Missing};
use super::health::Figures;
use super::look::Place;
use super::peers::{self, Peers};
use super::sight::Sight;
use crate::secrets::PasswordError;
use crate::{chain, say};

/// Where servers are, unless they say otherwise.
const SERVER_PORT: u16 = 6379;
/// How often we think of whom our server has lost.
const EVERY: Duration = Duration::from_secs(1);
/// For asking for a name.
const NAME: Duration = Duration::from_secs(2);
/// For whoever is there to say who it is.
const LOOK: Duration = Duration::from_secs(1);
/// For each step of telling our server.
const PATIENCE: Deadlines =
    Deadlines { connect: Duration::from_millis(500), command: Duration::from_millis(1500) };

/// Why somebody was not introduced.
#[derive(Debug, Snafu)]
enum Error {
    #[snafu(display("failed to find {host}"))]
    Find { host: String, source: io::Error },
    #[snafu(display("failed to find {host} within {NAME:?}"))]
    FindInTime { host: String },
    #[snafu(display("failed to find {host}: it has no address"))]
    FindNone { host: String },
    #[snafu(transparent)]
    Ask { source: peers::Error },
    #[snafu(display("failed to find {host} at {address}: somebody else is there"))]
    SomebodyElse { host: String, address: SocketAddr },
    #[snafu(transparent)]
    Password { source: PasswordError },
    #[snafu(transparent)]
    Introduce { source: valkey::Error },
}

/// Look for whom our server loses, for as long as we live.
pub(super) async fn go_on(
    mut sight: watch::Receiver<Sight>,
    peers: Peers,
    place: Place,
    figures: Arc<Figures>,
) {
    let mut lost = Lost::default();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let table = match &sight.borrow_and_update().report.server {
            ServerState::Up(server) => ClusterNodes::parse(&server.cluster_nodes),
            _ => ClusterNodes::default(),
        };
        let missing = lost.seek(&table, Instant::now());
        if missing.is_empty() {
            continue;
        }
        let mut seeking = JoinSet::new();
        for one in missing {
            let (peers, place) = (peers.clone(), place.clone());
            seeking.spawn(async move { (introduce(&one, &peers, &place).await, one) });
        }
        while let Some(sought) = seeking.join_next().await {
            let Ok((introduced, Missing { node_id, host })) = sought else { continue };
            figures.sought(introduced.is_ok());
            let words = match introduced {
                Ok(address) => format!("the server has lost {node_id}: {host} is at {}", address.ip()),
                Err(error) => format!("the server has lost {node_id}: {}", chain(&error)),
            };
            // Once for each: somebody may be away for a day.
            if lost.is_news(&node_id, &words) {
                say(&words);
            }
        }
    }
}

/// Find somebody, and tell our server where it is. Addresses are used again, by other clusters too: whoever is at one must show that it
/// is of ours, and that its server is the one we look for.
async fn introduce(missing: &Missing, peers: &Peers, place: &Place) -> Result<SocketAddr, Error> {
    let host = missing.host.as_str();
    let address = find(host, peers).await?;
    let there = peers.look(address, LOOK).await?;
    ensure!(there.node_id == missing.node_id, SomebodyElseSnafu { host, address });
    let connection = Connection::open(&place.server(PATIENCE)?).await?;
    // A server that speaks TLS only tells no port to those who speak to it otherwise.
    let port = u16::try_from(there.port).ok().filter(|port| *port > 0).unwrap_or(SERVER_PORT);
    let ip = address.ip().to_string();
    match u16::try_from(there.bus_port).ok().filter(|port| *port > 0) {
        Some(bus_port) => connection.cluster_meet_at(&ip, port, bus_port).await?,
        None => connection.cluster_meet(&ip, port).await?,
    }
    Ok(address)
}

/// Where the agent beside the server of this name is.
async fn find(host: &str, peers: &Peers) -> Result<SocketAddr, Error> {
    if let Some(known) = peers.called(host) {
        return Ok(known);
    }
    let found = tokio::time::timeout(NAME, tokio::net::lookup_host((host, peers::PORT))).await;
    let Ok(found) = found else { return FindInTimeSnafu { host }.fail() };
    match found.context(FindSnafu { host })?.next() {
        Some(address) => Ok(address),
        None => FindNoneSnafu { host }.fail(),
    }
}
