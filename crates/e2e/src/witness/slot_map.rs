//! Who owns which slot, as CLUSTER SLOTS tells it to clients.

use std::collections::{BTreeMap, BTreeSet};

use valkey::SlotRange;
use valkey::client::Value;
use valkey::slots::SLOT_COUNT;

use crate::access::Address;

/// One server's view of the slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotMap {
    owners: Vec<Option<Address>>,
    nodes: BTreeSet<Address>,
}

impl SlotMap {
    /// Nobody owns anything.
    pub(crate) fn empty() -> Self {
        Self { owners: vec![None; usize::from(SLOT_COUNT)], nodes: BTreeSet::new() }
    }

    /// A server outside of any cluster holds every key.
    pub(crate) fn single(address: &Address) -> Self {
        let mut map = Self::empty();
        map.give(SlotRange::ALL, address);
        map
    }

    /// Reads a reply; a server that does not say where a node is means its own host, which is `asked`.
    pub(crate) fn read(reply: &Value, asked: &Address) -> Option<Self> {
        let Value::Array(rows) = reply else { return None };
        let mut map = Self::empty();
        for row in rows {
            let Value::Array(row) = row else { return None };
            let [start, end, nodes @ ..] = row.as_slice() else { return None };
            let range = SlotRange::new(slot(start)?, slot(end)?)?;
            let nodes: Vec<Address> = nodes.iter().map(|node| place(node, asked)).collect::<Option<_>>()?;
            // The first is the primary, the others follow it.
            map.give(range, nodes.first()?);
            map.nodes.extend(nodes);
        }
        Some(map)
    }

    fn give(&mut self, range: SlotRange, to: &Address) {
        for slot in range.start()..=range.end() {
            self.owners[usize::from(slot)] = Some(to.clone());
        }
        self.nodes.insert(to.clone());
    }

    /// One slot has another owner.
    pub(crate) fn moved(&mut self, slot: u16, to: &Address) {
        if let Some(range) = SlotRange::new(slot, slot) {
            self.give(range, to);
        }
    }

    /// The primary of a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        self.owners.get(usize::from(slot))?.as_ref()
    }

    /// Every node that serves a slot, replicas included.
    pub(crate) fn nodes(&self) -> &BTreeSet<Address> {
        &self.nodes
    }

    /// How many slots have an owner.
    pub(crate) fn covered(&self) -> usize {
        self.owners.iter().flatten().count()
    }

    /// The slots of each primary.
    pub(crate) fn shards(&self) -> BTreeMap<Address, Vec<u16>> {
        let mut shards = BTreeMap::<Address, Vec<u16>>::new();
        for (slot, owner) in (0_u16..).zip(&self.owners) {
            if let Some(owner) = owner {
                shards.entry(owner.clone()).or_default().push(slot);
            }
        }
        shards
    }
}

fn slot(value: &Value) -> Option<u16> {
    let Value::Int(number) = value else { return None };
    u16::try_from(*number).ok()
}

/// Reads `[endpoint, port, id, [name, value…]]`.
fn place(value: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(parts) = value else { return None };
    let [endpoint, Value::Int(port), rest @ ..] = parts.as_slice() else { return None };
    let known = |text: String| (!text.is_empty() && text != "?").then_some(text);
    let host = text(endpoint).and_then(known);
    let host = host.or_else(|| address_of(rest.get(1)?)).unwrap_or_else(|| asked.host.clone());
    Some(Address::new(host, u16::try_from(*port).ok()?))
}

/// A server that prefers names and does not know one still tells the address beside it.
fn address_of(metadata: &Value) -> Option<String> {
    let Value::Array(items) = metadata else { return None };
    let mut pairs = items.chunks(2);
    let pair = pairs.find(|pair| pair.first().and_then(text).as_deref() == Some("ip"))?;
    text(pair.get(1)?).filter(|ip| !ip.is_empty())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

/// The ranges of slots, in order, as people write them: `0-5460 10923`.
pub(crate) fn as_ranges(slots: &[u16]) -> String {
    let runs = slots.chunk_by(|one, next| *next == one + 1);
    let ranges = runs.filter_map(|run| SlotRange::new(*run.first()?, *run.last()?));
    ranges.map(|range| range.to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn node(endpoint: Value, port: i64, metadata: Vec<Value>) -> Value {
        Value::Array(vec![endpoint, Value::Int(port), bulk("id"), Value::Array(metadata)])
    }

    fn row(start: i64, end: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(start), Value::Int(end)], nodes].concat())
    }

    fn asked() -> Address {
        Address::new("10.0.0.9", 6379)
    }

    #[test]
    fn the_first_node_of_a_range_owns_it() {
        let reply = Value::Array(vec![
            row(0, 99, vec![node(bulk("10.0.0.1"), 7001, vec![]), node(bulk("10.0.0.2"), 7002, vec![])]),
            row(200, 16383, vec![node(bulk("10.0.0.3"), 7003, vec![])]),
        ]);
        let map = SlotMap::read(&reply, &asked()).expect("should be a map");
        assert_eq!(map.owner(0), Some(&Address::new("10.0.0.1", 7001)));
        assert_eq!((map.owner(100), map.owner(199)), (None, None));
        assert_eq!(map.owner(16383), Some(&Address::new("10.0.0.3", 7003)));
        assert_eq!((map.covered(), map.nodes().len()), (16384 - 100, 3));
    }

    #[test]
    fn an_unknown_place_is_found_beside_it_or_is_the_host_that_answered() {
        let cases = [
            (Value::Nil, vec![], "10.0.0.9"),
            (bulk(""), vec![], "10.0.0.9"),
            (bulk("?"), vec![bulk("ip"), bulk("10.0.0.4")], "10.0.0.4"),
            (bulk("node-1.example"), vec![bulk("ip"), bulk("10.0.0.4")], "node-1.example"),
        ];
        for (endpoint, metadata, host) in cases {
            let reply = Value::Array(vec![row(0, 16383, vec![node(endpoint, 6379, metadata)])]);
            let map = SlotMap::read(&reply, &asked()).expect("should be a map");
            assert_eq!(map, SlotMap::single(&Address::new(host, 6379)), "{host}");
        }
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for reply in [
            Value::Nil,
            Value::Array(vec![bulk("x")]),
            Value::Array(vec![row(5, 4, vec![])]),
            Value::Array(vec![row(0, 16384, vec![node(bulk("h"), 1, vec![])])]),
            Value::Array(vec![row(0, 1, vec![])]),
        ] {
            assert_eq!(SlotMap::read(&reply, &asked()), None, "{reply:?}");
        }
    }

    #[test]
    fn a_moved_slot_changes_alone() {
        let mut map = SlotMap::single(&asked());
        let other = Address::new("10.0.0.1", 6379);
        map.moved(7, &other);
        assert_eq!(
            (map.owner(6), map.owner(7), map.owner(8)),
            (Some(&asked()), Some(&other), Some(&asked()))
        );
        let shards = map.shards();
        assert_eq!(as_ranges(&shards[&other]), "7");
        assert_eq!(as_ranges(&shards[&asked()]), "0-6 8-16383");
    }
}
