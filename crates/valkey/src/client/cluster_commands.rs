//! The commands that form, mend and reshape a cluster.

use redis::{Cmd, Value};
use secrecy::{ExposeSecret, SecretString};

use super::connection::{Connection, Request};
use super::error::Error;
use super::reply::{bytes, integer};
use crate::cluster::{ClusterHealth, ClusterNodes, Shard, SlotMigration};
use crate::{Info, SlotRange};

/// How a replica takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailoverMode {
    /// The primary pauses its clients and hands over without losing a write. It must be alive.
    Planned,
    /// The primary is not asked; a majority of primaries votes.
    Force,
    /// Nobody is asked: the last resort where no majority is left.
    Takeover,
}

/// What `CLUSTER SETSLOT` says of a slot. Names are ids of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetSlot<'a> {
    /// It comes in from this node.
    Importing(&'a str),
    /// It leaves for this node.
    Migrating(&'a str),
    /// It belongs to this node.
    Node(&'a str),
    /// It neither comes nor leaves.
    Stable,
}

impl Connection {
    /// CLUSTER MYID.
    pub async fn cluster_myid(&self) -> Result<String, Error> {
        self.ask_text("CLUSTER MYID", cluster("MYID")).await
    }

    /// CLUSTER NODES.
    pub async fn cluster_nodes(&self) -> Result<ClusterNodes, Error> {
        self.cluster_nodes_text().await.map(|text| ClusterNodes::parse(&text))
    }

    /// The same in the server's own words, for whoever passes them on.
    pub async fn cluster_nodes_text(&self) -> Result<String, Error> {
        self.ask_text("CLUSTER NODES", cluster("NODES")).await
    }

    /// CLUSTER SHARDS.
    pub async fn cluster_shards(&self) -> Result<Vec<Shard>, Error> {
        let reply = self.ask("CLUSTER SHARDS", cluster("SHARDS")).await?;
        Shard::read(&reply).ok_or_else(|| self.protocol("CLUSTER SHARDS", "no list of shards"))
    }

    /// CLUSTER INFO, whose lines look like those of INFO.
    pub async fn cluster_info(&self) -> Result<Info, Error> {
        self.cluster_info_text().await.map(|text| Info::parse(&text))
    }

    /// The same in the server's own words, for whoever passes them on.
    pub async fn cluster_info_text(&self) -> Result<String, Error> {
        self.ask_text("CLUSTER INFO", cluster("INFO")).await
    }

    /// CLUSTER ADDSLOTSRANGE.
    pub async fn cluster_add_slots(&self, ranges: &[SlotRange]) -> Result<(), Error> {
        let command = with_ranges(cluster("ADDSLOTSRANGE"), ranges);
        self.ask("CLUSTER ADDSLOTSRANGE", command).await.map(drop)
    }

    /// CLUSTER INFO, the part that tells whether the cluster is well, as this node sees it.
    pub async fn cluster_health(&self) -> Result<ClusterHealth, Error> {
        let info = self.cluster_info().await?;
        ClusterHealth::read(&info).ok_or_else(|| self.protocol("CLUSTER INFO", "no state of the cluster"))
    }

    /// CLUSTER MEET. It takes an address, not a name, and expects the bus at its usual distance from the port. The
    /// answer comes before the two have met.
    pub async fn cluster_meet(&self, ip: &str, port: u16) -> Result<(), Error> {
        let mut command = cluster("MEET");
        command.arg(ip).arg(port);
        self.ask("CLUSTER MEET", command).await.map(drop)
    }

    /// CLUSTER MEET where the bus is not ten thousand ports further.
    pub async fn cluster_meet_at(&self, ip: &str, port: u16, bus_port: u16) -> Result<(), Error> {
        let mut command = cluster("MEET");
        command.arg(ip).arg(port).arg(bus_port);
        self.ask("CLUSTER MEET", command).await.map(drop)
    }

    /// CLUSTER SET-CONFIG-EPOCH, which only a node takes that knows no other.
    pub async fn cluster_set_config_epoch(&self, epoch: u64) -> Result<(), Error> {
        let mut command = cluster("SET-CONFIG-EPOCH");
        command.arg(epoch);
        self.ask("CLUSTER SET-CONFIG-EPOCH", command).await.map(drop)
    }

    /// CLUSTER BUMPEPOCH: gives the node an epoch above all others it knows, and says which one it has now.
    pub async fn cluster_bump_epoch(&self) -> Result<u64, Error> {
        const NAME: &str = "CLUSTER BUMPEPOCH";
        // `BUMPED 5`, or `STILL 5` where it was the greatest already.
        let reply = self.ask_text(NAME, cluster("BUMPEPOCH")).await?;
        let epoch = reply.split_ascii_whitespace().nth(1).and_then(|epoch| epoch.parse().ok());
        epoch.ok_or_else(|| self.protocol(NAME, "no epoch"))
    }

    /// CLUSTER REPLICATE: makes the node a replica. A primary must own no slots and hold no keys.
    pub async fn cluster_replicate(&self, node_id: &str) -> Result<(), Error> {
        let mut command = cluster("REPLICATE");
        command.arg(node_id);
        self.ask("CLUSTER REPLICATE", command).await.map(drop)
    }

    /// CLUSTER FORGET: removes a node from this node's table, and bans it for a minute.
    pub async fn cluster_forget(&self, node_id: &str) -> Result<(), Error> {
        let mut command = cluster("FORGET");
        command.arg(node_id);
        self.ask("CLUSTER FORGET", command).await.map(drop)
    }

    /// CLUSTER RESET: the node forgets its cluster; after a hard one it has another id and no epoch. A replica loses
    /// its keys, a primary that holds keys refuses.
    pub async fn cluster_reset(&self, hard: bool) -> Result<(), Error> {
        let mut command = cluster("RESET");
        command.arg(if hard { "HARD" } else { "SOFT" });
        self.ask("CLUSTER RESET", command).await.map(drop)
    }

    /// CLUSTER FAILOVER, sent to the replica. The answer only says that it begins: the role tells whether it worked.
    pub async fn cluster_failover(&self, mode: FailoverMode) -> Result<(), Error> {
        let mut command = cluster("FAILOVER");
        match mode {
            FailoverMode::Planned => {}
            FailoverMode::Force => drop(command.arg("FORCE")),
            FailoverMode::Takeover => drop(command.arg("TAKEOVER")),
        }
        self.ask("CLUSTER FAILOVER", command).await.map(drop)
    }

    /// CLUSTER DELSLOTSRANGE: this node no longer knows who owns the slots.
    pub async fn cluster_del_slots(&self, ranges: &[SlotRange]) -> Result<(), Error> {
        let command = with_ranges(cluster("DELSLOTSRANGE"), ranges);
        self.ask("CLUSTER DELSLOTSRANGE", command).await.map(drop)
    }

    /// CLUSTER MIGRATESLOTS, sent to the owner: ranges and the ids of the nodes they go to. All of them begin or none
    /// does; they go on in the background, see [`Connection::cluster_slot_migrations`].
    pub async fn cluster_migrate_slots(&self, moves: &[(Vec<SlotRange>, String)]) -> Result<(), Error> {
        let mut command = cluster("MIGRATESLOTS");
        for (ranges, target) in moves {
            command.arg("SLOTSRANGE");
            command = with_ranges(command, ranges);
            command.arg("NODE").arg(target);
        }
        self.ask("CLUSTER MIGRATESLOTS", command).await.map(drop)
    }

    /// CLUSTER GETSLOTMIGRATIONS: the moves under way and the latest that ended, this node being either end. A restart
    /// forgets them.
    pub async fn cluster_slot_migrations(&self) -> Result<Vec<SlotMigration>, Error> {
        const NAME: &str = "CLUSTER GETSLOTMIGRATIONS";
        let reply = self.ask(NAME, cluster("GETSLOTMIGRATIONS")).await?;
        SlotMigration::read(&reply).ok_or_else(|| self.protocol(NAME, "no list of migrations"))
    }

    /// CLUSTER CANCELSLOTMIGRATIONS: stops every move out of this node. The server refuses where there is none.
    pub async fn cluster_cancel_slot_migrations(&self) -> Result<(), Error> {
        self.ask("CLUSTER CANCELSLOTMIGRATIONS", cluster("CANCELSLOTMIGRATIONS")).await.map(drop)
    }

    /// CLUSTER SETSLOT, for servers that cannot migrate slots by themselves.
    pub async fn cluster_set_slot(&self, slot: u16, what: SetSlot<'_>) -> Result<(), Error> {
        let mut command = cluster("SETSLOT");
        command.arg(slot);
        match what {
            SetSlot::Importing(source) => command.arg("IMPORTING").arg(source),
            SetSlot::Migrating(target) => command.arg("MIGRATING").arg(target),
            SetSlot::Node(owner) => command.arg("NODE").arg(owner),
            SetSlot::Stable => command.arg("STABLE"),
        };
        self.ask("CLUSTER SETSLOT", command).await.map(drop)
    }

    /// CLUSTER COUNTKEYSINSLOT, of this node alone.
    pub async fn cluster_count_keys_in_slot(&self, slot: u16) -> Result<u64, Error> {
        const NAME: &str = "CLUSTER COUNTKEYSINSLOT";
        let mut command = cluster("COUNTKEYSINSLOT");
        command.arg(slot);
        let reply = self.ask(NAME, command).await?;
        let count = integer(&reply).and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| self.protocol(NAME, "no number"))
    }

    /// CLUSTER GETKEYSINSLOT: up to so many keys of a slot, as bytes, because a key need not be text.
    pub async fn cluster_keys_in_slot(&self, slot: u16, count: u32) -> Result<Vec<Vec<u8>>, Error> {
        const NAME: &str = "CLUSTER GETKEYSINSLOT";
        let mut command = cluster("GETKEYSINSLOT");
        command.arg(slot).arg(count);
        let keys = match self.ask(NAME, command).await? {
            Value::Array(keys) => keys.into_iter().map(bytes).collect::<Option<_>>(),
            _ => None,
        };
        keys.ok_or_else(|| self.protocol(NAME, "no list of keys"))
    }

    /// MIGRATE: moves keys to another server, which is dialled by this one. A key that both have is taken from here,
    /// because that is where writes went until now. Keys that are gone are no failure.
    pub async fn migrate_keys(
        &self,
        host: &str,
        port: u16,
        keys: &[Vec<u8>],
        timeout_ms: u64,
        credentials: Option<(&str, &SecretString)>,
    ) -> Result<(), Error> {
        // The server takes a call without keys for one about the key of no name.
        if keys.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("MIGRATE");
        command.arg(host).arg(port).arg("").arg(0).arg(timeout_ms).arg("REPLACE");
        if let Some((user, password)) = credentials {
            command.arg("AUTH2").arg(user).arg(password.expose_secret());
        }
        command.arg("KEYS").arg(keys);
        let secrets = credentials.iter().map(|(_, password)| *password).collect();
        self.send(Request { name: "MIGRATE", command, secrets }).await.map(drop)
    }
}

fn cluster(subcommand: &str) -> Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg(subcommand);
    command
}

fn with_ranges(mut command: Cmd, ranges: &[SlotRange]) -> Cmd {
    for range in ranges {
        command.arg(range.start()).arg(range.end());
    }
    command
}
