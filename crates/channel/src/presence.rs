//! Whether anybody is there: below all that can be wrong with certificates, programs and versions.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Whoever is there answers in far less.
const PATIENCE: Duration = Duration::from_millis(250);

/// A server or the agent beside it can be reached. The server comes first: it takes no notice of somebody who says nothing.
pub async fn is_there(server: SocketAddr, agent: SocketAddr) -> bool {
    let beside = async {
        sleep(PATIENCE / 5).await;
        listens(agent).await
    };
    tokio::select! {
        true = listens(server) => true,
        true = beside => true,
        else => false,
    }
}

async fn listens(address: SocketAddr) -> bool {
    timeout(PATIENCE, TcpStream::connect(address)).await.is_ok_and(|connected| connected.is_ok())
}
