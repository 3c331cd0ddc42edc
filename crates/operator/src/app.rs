//! Wiring: client, metrics, leader election, controllers, and stopping in the right order.

use std::sync::Arc;

use channel::Door;
use kit::lease::Candidate;
use kit::metrics::{CountCalls, Metrics};
use kit::serve::{self, Readiness};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use snafu::{ResultExt as _, Snafu};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::heartbeats::{self, Reception};
use crate::hooks::AfterCommand;
use crate::{certificates, controllers, leader_label};

/// Name of the Lease.
const LEASE: &str = "valkey-operator";

/// Why the operator stopped.
#[derive(Debug, Snafu)]
pub enum Error {
    /// No API server to work with.
    #[snafu(display("failed to find out how to reach the Kubernetes API"))]
    Configure {
        /// Why.
        source: kube::config::InferConfigError,
    },
    /// The client could not be made.
    #[snafu(display("failed to make a client for the Kubernetes API"))]
    Connect {
        /// Why.
        #[snafu(source(from(kube::Error, Box::new)))]
        source: Box<kube::Error>,
    },
    /// Signals cannot be received.
    #[snafu(display("failed to listen for signals"))]
    Signals {
        /// Why.
        source: std::io::Error,
    },
    /// The crypto provider was already chosen.
    #[snafu(display("failed to choose the TLS implementation"))]
    Crypto,
    /// Nobody could ask how we are.
    #[snafu(display("failed to serve health and metrics"))]
    Http {
        /// Why.
        source: serve::Error,
    },
    /// Nobody could tell us how servers are.
    #[snafu(display("failed to listen for agents on {address}"))]
    ListenForAgents {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Agents could not be received.
    #[snafu(display("failed to prepare TLS for agents"))]
    PrepareDoor {
        /// Why.
        source: rustls::Error,
    },
    /// Nobody receives agents any more.
    #[snafu(display("failed to go on receiving agents"))]
    Receive,
    /// The leadership was lost: going on could mean that two replicas act.
    #[snafu(display("failed to keep the leadership"))]
    LostLeadership,
}

/// Run until a signal comes or the leadership is lost.
pub async fn run(args: Args) -> Result<(), Error> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| Error::Crypto)?;
    let stop = kit::shutdown::on_signal().context(SignalsSnafu)?;
    let (metrics, registry) = Metrics::new();
    let client = connect(&metrics).await?;
    let readiness = Readiness::default();
    let http = tokio::spawn(serve::run(args.http_address, readiness.clone(), registry, stop.clone()));
    tokio::select! {
        // Without it the kubelet would end us, and nobody would know why.
        Ok(Err(source)) = http => Err(Error::Http { source }),
        result = work(&args, client, metrics, readiness, &stop) => {
            stop.cancel();
            result
        }
    }
}

/// Lead when it is our turn.
async fn work(
    args: &Args,
    client: Client,
    metrics: Metrics,
    readiness: Readiness,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let candidate = Candidate::new(client.clone(), &args.namespace, LEASE, &args.identity);
    if !candidate.reach(stop).await {
        return Ok(());
    }
    // A replica that waits for the leadership is as ready as the leader: it can take over at any time.
    readiness.set(true);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), identity = %args.identity, "waiting for the leadership");
    if candidate.acquire(stop).await {
        tracing::info!(scopes = ?args.scopes(), "leading");
        metrics.leader.set(1);
        lead(args, &client, &metrics, &candidate, stop).await?;
    }
    tracing::info!("stopped");
    Ok(())
}

async fn connect(metrics: &Metrics) -> Result<Client, Error> {
    let config = Config::infer().await.context(ConfigureSnafu)?;
    let builder = ClientBuilder::try_from(config).context(ConnectSnafu)?;
    Ok(builder.with_layer(&CountCalls(metrics.clone())).build())
}

/// Run the controllers for as long as the Lease is ours. On a graceful stop the controllers finish what they are doing
/// before the Lease is released: the next leader must not start beside us.
async fn lead(
    args: &Args,
    client: &Client,
    metrics: &Metrics,
    candidate: &Candidate,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let reception = Arc::new(Reception::new(&args.trust_domain, metrics.clone()));
    // They end with this function: nothing that an agent says is waited for.
    let mut receiving = JoinSet::new();
    if args.sidecars {
        let door = Door::new(reception.clone()).context(PrepareDoorSnafu)?;
        let address = args.agents_address;
        let listener = TcpListener::bind(address).await.context(ListenForAgentsSnafu { address })?;
        receiving.spawn(heartbeats::serve(listener, door, reception.clone(), stop.clone()));
        let label = leader_label::keep(client.clone(), args.namespace.clone(), args.identity.clone());
        let (open, scopes) = (reception.clone(), args.scopes().len());
        receiving.spawn(async move {
            open.is_open(scopes).await;
            label.await;
        });
    }
    let mut running = JoinSet::new();
    for scope in args.scopes() {
        running.spawn(controllers::run(
            client.clone(),
            scope,
            args.settings(),
            metrics.clone(),
            AfterCommand::default(),
            reception.clone(),
            stop.clone(),
        ));
    }
    running.spawn(certificates::run_roots(
        client.clone(),
        args.scopes(),
        args.settings(),
        metrics.clone(),
        stop.clone(),
    ));
    // The Lease is renewed until the last controller has finished, not only until it was told to.
    let never = CancellationToken::new();
    tokio::select! {
        () = async { while running.join_next().await.is_some() {} } => {}
        () = ended_early(&mut receiving, stop) => return ReceiveSnafu.fail(),
        _ = candidate.hold(&never) => {
            // Not even a graceful stop: whoever holds the Lease now is already acting. Dropping the controllers ends
            // them.
            return LostLeadershipSnafu.fail();
        }
    }
    candidate.release().await;
    Ok(())
}

/// Ends if one of these does although nobody told it to.
async fn ended_early(receiving: &mut JoinSet<()>, stop: &CancellationToken) {
    let ended = receiving.join_next().await;
    if ended.is_none() || stop.is_cancelled() {
        std::future::pending::<()>().await;
    }
}
