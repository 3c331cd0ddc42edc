//! Two clients, one at a primary that is cut off and one at its replica: which of the two was acknowledged something when.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use valkey::client::Value;
use valkey::{Connection, Deadlines};

use crate::World;
use crate::clusters::Server;
use crate::faults::Fault;
use crate::wait;
use crate::witness::tags;

const DEADLINES: Deadlines =
    Deadlines { connect: Duration::from_millis(300), command: Duration::from_millis(300) };
/// Between two writes.
const EVERY: Duration = Duration::from_millis(5);

/// What the two saw.
#[derive(Debug)]
pub struct Rivals {
    /// From the cut to the last write that the former primary acknowledged.
    pub last_before: Duration,
    /// From the cut to the first that the new one did.
    pub first_after: Duration,
}

/// Cuts the primary of a shard off its peers, with a client at each side, until the replica takes writes. Everything is as it was then.
pub async fn cut_off(world: &World, cluster: &str, shard: usize) -> Rivals {
    let details = world.cluster_status(cluster).await.shard_details.remove(shard);
    let slot = details
        .slots
        .split(['-', ','])
        .next()
        .and_then(|first| first.parse().ok())
        .expect("should be a slot");
    let primary =
        world.cluster_server(cluster, details.primary.as_deref().expect("should have a primary")).await;
    let replica = world.cluster_server(cluster, &details.replicas[0].node).await;
    let stop = CancellationToken::new();
    let before = tokio::spawn(write(open(&primary).await, primary.clone(), slot, "former", stop.clone()));
    let after = tokio::spawn(write(open(&replica).await, replica.clone(), slot, "new", stop.clone()));
    // Both are at it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let cut = Instant::now();
    let pods = [primary.pod.clone()];
    let takes_over = async {
        wait::until("the replica leads", Duration::from_secs(30), async || {
            let connection = replica.open().await.map_err(|error| error.to_string())?;
            let table = connection.cluster_nodes().await.map_err(|error| error.to_string())?;
            table.myself().filter(|node| node.is_primary()).map(drop).ok_or("it follows".to_owned())
        })
        .await;
        // Long enough for both to be seen.
        tokio::time::sleep(Duration::from_secs(2)).await;
    };
    Fault::PeersLost.during(world, &pods, takes_over).await;
    stop.cancel();
    let before = before.await.expect("should end");
    let after = after.await.expect("should end");
    let since_cut = |at: &Instant| at.saturating_duration_since(cut);
    Rivals {
        last_before: before.last().map(since_cut).expect("should have been acknowledged something"),
        first_after: after.first().map(since_cut).expect("should have been acknowledged something"),
    }
}

async fn open(server: &Server) -> Connection {
    World::writer(server, DEADLINES).await.expect("should be let in")
}

/// Writes to one server, whatever it says, over a connection that was open before; when each write was acknowledged.
async fn write(
    connection: Connection,
    server: Server,
    slot: u16,
    name: &'static str,
    stop: CancellationToken,
) -> Vec<Instant> {
    let key = format!("{name}:{{{}}}", tags()[usize::from(slot)]);
    let mut connection = Some(connection);
    let mut acknowledged = Vec::new();
    while !stop.is_cancelled() {
        if let Some(open) = &connection {
            match open.raw(&["SET", &key, "1"]).await {
                Ok(Value::Okay) => acknowledged.push(Instant::now()),
                Ok(_) | Err(valkey::Error::Server { .. }) => {}
                Err(_) => connection = None,
            }
        } else {
            connection = World::writer(&server, DEADLINES).await.ok();
        }
        tokio::time::sleep(EVERY).await;
    }
    acknowledged
}
