//! Whether anybody is there: below all that can be wrong with certificates, programs and versions.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::peers::Peers;
use super::voters::Member;

/// Whoever is there answers in far less.
const PATIENCE: Duration = Duration::from_millis(250);

/// Its server or its agent can be reached. The server comes first: it takes no notice of somebody who says nothing.
pub(super) async fn is_there(peers: &Peers, member: &Member) -> bool {
    let server = listens(SocketAddr::new(member.ip, member.port));
    let agent = async {
        tokio::time::sleep(PATIENCE / 5).await;
        listens(peers.beside(member.ip, member.port)).await
    };
    tokio::select! {
        true = server => true,
        true = agent => true,
        else => false,
    }
}

async fn listens(address: SocketAddr) -> bool {
    timeout(PATIENCE, TcpStream::connect(address)).await.is_ok_and(|connected| connected.is_ok())
}
