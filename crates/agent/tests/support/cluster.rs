//! Pods that form a cluster.

use valkey::Connection;
use valkey::cluster::Flag;
use valkey::slots::initial;
use valkey::testing::Release;

use super::{Pod, eventually};

const SHARDS: usize = 3;

/// Three shards of one replica each: the primaries first, then their replicas in the same order.
pub(crate) async fn form(release: Release, conf: &str) -> (Vec<Pod>, Vec<Connection>) {
    let mut pods: Vec<Pod> = (0..2 * SHARDS).map(|_| Pod::new(release, "kept", conf)).collect();
    let connections = join(&mut pods, SHARDS).await;
    (pods, connections)
}

/// The first so many of these pods lead, and the others follow them, one after the other.
pub(crate) async fn join(pods: &mut [Pod], shards: usize) -> Vec<Connection> {
    pods.iter_mut().for_each(Pod::start);
    let mut connections = Vec::new();
    for (epoch, pod) in (1..).zip(&*pods) {
        let connection = pod.connect().await;
        tell(&connection, &format!("CLUSTER SET-CONFIG-EPOCH {epoch}")).await;
        connections.push(connection);
    }
    meet(pods, &connections).await;
    let (primaries, replicas) = connections.split_at(shards);
    for (primary, ranges) in primaries.iter().zip(initial(shards)) {
        primary.cluster_add_slots(&ranges).await.expect("should take slots");
    }
    for (primary, replica) in primaries.iter().cycle().zip(replicas) {
        let id = primary.cluster_myid().await.expect("should answer");
        tell(replica, &format!("CLUSTER REPLICATE {id}")).await;
    }
    for connection in &connections {
        eventually("everybody sees all slots and all replicas", || async {
            let info = connection.cluster_info().await.expect("should answer");
            let table = connection.cluster_nodes().await.expect("should answer");
            let known = table.nodes.iter().filter(|node| node.is_replica()).count();
            (info.get("cluster_state") == Some("ok") && known == replicas.len()).then_some(())
        })
        .await;
    }
    connections
}

async fn meet(pods: &[Pod], connections: &[Connection]) {
    introduce(&connections[..1], pods, connections).await;
    for connection in connections {
        eventually("everybody knows everybody", || async {
            let nodes = connection.cluster_nodes().await.expect("should answer").nodes;
            let known = nodes.iter().filter(|node| !node.flags.contains(&Flag::Handshake)).count();
            (known == connections.len() && known == nodes.len()).then_some(())
        })
        .await;
    }
}

/// Everybody is told where everybody is now, as an operator does.
pub(crate) async fn introduce_all(pods: &[Pod], connections: &[Connection]) {
    introduce(connections, pods, connections).await;
}

async fn introduce(to: &[Connection], pods: &[Pod], connections: &[Connection]) {
    for (pod, connection) in pods.iter().zip(connections) {
        let bus = connection.config_get(&["cluster-port"]).await.expect("should answer");
        let words = format!("CLUSTER MEET 127.0.0.1 {} {}", pod.port(), bus["cluster-port"]);
        for other in to.iter().filter(|other| !std::ptr::eq(*other, connection)) {
            tell(other, &words).await;
        }
    }
}

/// A command that has to work.
pub(crate) async fn tell(connection: &Connection, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    connection.raw(&words).await.expect("should obey");
}
