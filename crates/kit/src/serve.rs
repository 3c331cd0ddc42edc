//! The small HTTP server for the kubelet and Prometheus: `/healthz`, `/readyz`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use snafu::{ResultExt as _, Snafu};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Why the server could not run.
#[derive(Debug, Snafu)]
pub enum Error {
    /// The address is taken or not ours.
    #[snafu(display("failed to listen on {address}"))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// Accepting connections failed.
    #[snafu(display("failed to serve on {address}"))]
    Serve {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
}

/// Set once the program can do its work; read by `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Say whether the program can do its work.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }
}

struct Shared {
    readiness: Readiness,
    registry: Registry,
}

/// The routes, for the server and for tests.
pub fn router(readiness: Readiness, registry: Registry) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Shared { readiness, registry }))
}

/// Serve until `stop`.
pub async fn run(
    address: SocketAddr,
    readiness: Readiness,
    registry: Registry,
    stop: CancellationToken,
) -> Result<(), Error> {
    let listener = TcpListener::bind(address).await.context(ListenSnafu { address })?;
    axum::serve(listener, router(readiness, registry))
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
        .context(ServeSnafu { address })
}

async fn readyz(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    if shared.readiness.0.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shared.registry) {
        Ok(()) => (
            StatusCode::OK,
            [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")],
            text,
        ),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], String::new()),
    }
}
