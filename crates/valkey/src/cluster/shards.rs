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

/// Reads a reply of RESP2 (arrays of names and values) or RESP3 (maps); `None` where it is no list of shards.
pub(crate) fn read(value: &Value) -> Option<Vec<Shard>> {
    let Value::Array(shards) = value else { return None };
    shards.iter().map(shard).collect()
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
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn reply(map: fn(Vec<(Value, Value)>) -> Value, last_slot: i64) -> Value {
        let node = map(vec![
            (bulk("id"), bulk("07c3")),
            (bulk("port"), Value::Int(6379)),
            (bulk("ip"), bulk("10.0.0.1")),
            (bulk("endpoint"), Value::Nil),
            (bulk("role"), bulk("master")),
            (bulk("replication-offset"), Value::Int(72)),
            (bulk("health"), bulk("online")),
            (bulk("colour"), bulk("blue")),
        ]);
        Value::Array(vec![map(vec![
            (bulk("slots"), Value::Array(vec![Value::Int(0), Value::Int(last_slot)])),
            (bulk("nodes"), Value::Array(vec![node])),
        ])])
    }

    fn flat(pairs: Vec<(Value, Value)>) -> Value {
        Value::Array(pairs.into_iter().flat_map(|(name, value)| [name, value]).collect())
    }

    #[test]
    fn both_protocols_say_the_same() {
        let shards = read(&reply(flat, 5460)).expect("should be readable");
        assert_eq!(read(&reply(Value::Map, 5460)), Some(shards.clone()));
        assert_eq!(shards[0].slots, [SlotRange::new(0, 5460).expect("should be in bounds")]);
        let node = &shards[0].nodes[0];
        assert_eq!((node.id.as_str(), node.port, node.tls_port), ("07c3", Some(6379), None));
        assert_eq!((node.role, node.endpoint.as_deref()), (Some(ReplicationRole::Primary), None));
    }

    #[test]
    fn nonsense_is_no_reply() {
        assert_eq!(read(&Value::Okay), None);
        assert_eq!(read(&reply(flat, 16384)), None);
        assert_eq!(read(&reply(flat, -1)), None);
        assert_eq!(read(&Value::Array(vec![Value::Array(vec![bulk("slots")])])), None);
    }
}
