//! CLUSTER SHARDS: the slots, and the nodes that serve them.

use redis::Value;

use crate::client::reply::{entries, integer, text};
use crate::info::ReplicationRole;
use crate::slots::SlotRange;

/// The nodes that hold the same slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shard {
    /// What the shard owns; nothing for a shard that is drained.
    pub slots: Vec<SlotRange>,
    /// Its members.
    pub nodes: Vec<ShardNode>,
    /// The shard's identity, where the server tells it (Valkey 9 and later).
    pub id: Option<String>,
}

/// A member of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardNode {
    /// The node's identity.
    pub id: String,
    /// Its role, where it is one we know.
    pub role: Option<ReplicationRole>,
    /// Where clients should go, by the server's preference.
    pub endpoint: Option<String>,
    /// Its address.
    pub ip: String,
    /// What `cluster-announce-hostname` says.
    pub hostname: Option<String>,
    /// Port without TLS.
    pub port: Option<u16>,
    /// Port with TLS.
    pub tls_port: Option<u16>,
    /// How far its history goes.
    pub replication_offset: Option<u64>,
    /// `online`, `failed` or `loading`, as the server wrote it.
    pub health: String,
}

impl Shard {
    /// Reads a reply of RESP2 (arrays of names and values) or RESP3 (maps); `None` where it is no list of shards.
    pub fn read(reply: &Value) -> Option<Vec<Self>> {
        let Value::Array(shards) = reply else { return None };
        shards.iter().map(shard).collect()
    }
}

fn shard(value: &Value) -> Option<Shard> {
    let mut shard = Shard::default();
    for (name, value) in entries(value)? {
        match (text(name)?.as_str(), value) {
            ("slots", Value::Array(ends)) => shard.slots = ranges(ends)?,
            ("nodes", Value::Array(nodes)) => shard.nodes = nodes.iter().map(node).collect::<Option<_>>()?,
            ("id", value) => shard.id = text(value),
            _ => {}
        }
    }
    Some(shard)
}

fn ranges(ends: &[Value]) -> Option<Vec<SlotRange>> {
    // The list is flat: start, end, start, end.
    let end = |value: Option<&Value>| u16::try_from(integer(value?)?).ok();
    ends.chunks(2).map(|pair| SlotRange::new(end(pair.first())?, end(pair.get(1))?)).collect()
}

fn node(value: &Value) -> Option<ShardNode> {
    let mut node = ShardNode::default();
    let port = |value| integer(value).and_then(|port| u16::try_from(port).ok());
    for (name, value) in entries(value)? {
        match text(name)?.as_str() {
            "id" => node.id = text(value)?,
            "role" => node.role = text(value).as_deref().and_then(ReplicationRole::parse),
            "endpoint" => node.endpoint = text(value),
            "ip" => node.ip = text(value)?,
            "hostname" => node.hostname = text(value).filter(|hostname| !hostname.is_empty()),
            "port" => node.port = port(value),
            "tls-port" => node.tls_port = port(value),
            "replication-offset" => {
                node.replication_offset = integer(value).and_then(|offset| u64::try_from(offset).ok());
            }
            "health" => node.health = text(value)?,
            _ => {}
        }
    }
    (!node.id.is_empty()).then_some(node)
}

#[cfg(test)]
mod tests;
