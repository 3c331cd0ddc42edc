//! What the servers of a cluster say, each for itself.

use std::time::Duration;

use valkey::cluster::{ClusterNodes, Node};
use valkey::info::Replication;
use valkey::{Connection, Deadlines, Error};

use super::Violation;
use crate::access::{Access, Address};

/// How long a server may take for each answer.
const DEADLINES: Deadlines = Deadlines { connect: Duration::from_secs(2), command: Duration::from_secs(2) };

/// The servers that should be, shard by shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The members of each shard, in any order.
    pub shards: Vec<Vec<Address>>,
}

/// What one server says.
#[derive(Debug, Clone)]
pub struct View {
    /// Its table of the cluster.
    pub table: ClusterNodes,
    /// Its part in replication.
    pub replication: Option<Replication>,
    /// `ok` or `fail`, of CLUSTER INFO.
    pub state: String,
}

impl View {
    /// Asks one server.
    pub async fn of(connection: &Connection) -> Result<Self, Error> {
        let table = connection.cluster_nodes().await?;
        let state = connection.cluster_info().await?.get("cluster_state").unwrap_or_default().to_owned();
        let replication = connection.info(&[valkey::client::Section::Replication]).await?.replication();
        Ok(Self { table, replication, state })
    }

    /// What the server says of itself.
    pub fn myself(&self) -> Option<&Node> {
        self.table.myself()
    }

    /// How far its data goes, as primary or as replica.
    pub fn offset(&self) -> Option<u64> {
        let replication = self.replication.as_ref()?;
        replication.primary.as_ref().and_then(|link| link.offset).or(replication.offset)
    }
}

/// What all servers say.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// Each server, with what it says or why it says nothing.
    pub views: Vec<(Address, Result<View, String>)>,
}

impl Observation {
    /// Asks all wanted servers at once.
    pub async fn of(access: &Access, wanted: &Wanted) -> Self {
        let servers = wanted.shards.iter().flatten();
        let asked = servers.map(|address| async move {
            let target = access.target(address, DEADLINES);
            let view = async { View::of(&Connection::open(&target).await?).await }.await;
            (address.clone(), view.map_err(|error: Error| error.to_string()))
        });
        Self { views: futures::future::join_all(asked).await }
    }

    /// Those who answered.
    pub fn answers(&self) -> impl Iterator<Item = (&Address, &View)> {
        self.views.iter().filter_map(|(address, view)| Some((address, view.as_ref().ok()?)))
    }

    /// What one server says.
    pub fn view(&self, server: &Address) -> Option<&View> {
        self.answers().find(|(address, _)| *address == server).map(|(_, view)| view)
    }

    /// Servers that do not answer, answer nonsense, or do not see the whole cluster.
    pub fn silent(&self) -> Vec<Violation> {
        let judge = |(address, view): &(Address, Result<View, String>)| {
            let server = address.to_string();
            match view {
                Err(why) => Some(Violation::Silent { server, why: why.clone() }),
                Ok(view) if view.table.unreadable > 0 || view.myself().is_none() => {
                    Some(Violation::Silent { server, why: "its table cannot be read".to_owned() })
                }
                Ok(view) if view.state != "ok" => {
                    Some(Violation::NotOk { server, state: view.state.clone() })
                }
                Ok(_) => None,
            }
        };
        self.views.iter().filter_map(judge).collect()
    }
}
