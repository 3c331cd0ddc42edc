use proptest::prelude::*;

use super::*;
use crate::slots::SLOT_COUNT;

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
    let shards = Shard::read(&reply(flat, 5460)).expect("should be readable");
    assert_eq!(Shard::read(&reply(Value::Map, 5460)), Some(shards.clone()));
    assert_eq!(shards[0].slots, [SlotRange::new(0, 5460).expect("should be in bounds")]);
    let node = &shards[0].nodes[0];
    assert_eq!((node.id.as_str(), node.port, node.tls_port), ("07c3", Some(6379), None));
    assert_eq!((node.role, node.endpoint.as_deref()), (Some(ReplicationRole::Primary), None));
}

#[test]
fn nonsense_is_no_reply() {
    assert_eq!(Shard::read(&Value::Okay), None);
    assert_eq!(Shard::read(&reply(flat, 16384)), None);
    assert_eq!(Shard::read(&reply(flat, -1)), None);
    assert_eq!(Shard::read(&Value::Array(vec![Value::Array(vec![bulk("slots")])])), None);
}

/// Anything a server can send, with the words of a real reply where they lead the parser deeper.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        any::<bool>().prop_map(Value::Boolean),
        any::<f64>().prop_map(Value::Double),
        any::<i64>().prop_map(Value::Int),
        (-1..=i64::from(SLOT_COUNT)).prop_map(Value::Int),
        any::<Vec<u8>>().prop_map(Value::BulkString),
        any::<String>().prop_map(Value::SimpleString),
        prop::sample::select(vec!["slots", "nodes", "id", "ip", "port", "role", "endpoint", "health"])
            .prop_map(bulk),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Set),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

fn shards() -> impl Strategy<Value = Vec<Shard>> {
    let range = (0..SLOT_COUNT, 0..100_u16).prop_map(|(start, length)| {
        SlotRange::new(start, (start + length).min(SLOT_COUNT - 1)).expect("in bounds")
    });
    let role = prop::option::of(prop_oneof![Just(ReplicationRole::Primary), Just(ReplicationRole::Replica)]);
    let endpoint = prop::option::of("[a-z0-9.]{0,12}");
    let hostname = prop::option::of("[a-z0-9.-]{1,12}");
    let ports = (any::<Option<u16>>(), any::<Option<u16>>());
    let offset = prop::option::of(0..u64::from(u32::MAX));
    let node = ("[0-9a-f]{40}", role, endpoint, "[0-9a-f.:]{0,12}", hostname, ports, offset, "[a-z]{0,8}");
    let node =
        node.prop_map(|(id, role, endpoint, ip, hostname, (port, tls_port), replication_offset, health)| {
            ShardNode { id, role, endpoint, ip, hostname, port, tls_port, replication_offset, health }
        });
    let shard = (
        prop::collection::vec(range, 0..4),
        prop::collection::vec(node, 0..4),
        prop::option::of("[0-9a-f]{40}"),
    );
    prop::collection::vec(shard.prop_map(|(slots, nodes, id)| Shard { slots, nodes, id }), 0..4)
}

/// A reply as a server writes it: what it does not know is left out.
fn written(map: fn(Vec<(Value, Value)>) -> Value, shards: &[Shard]) -> Value {
    let number = |number: i64| Value::Int(number);
    let node = |node: &ShardNode| {
        let role = node.role.map(|role| match role {
            ReplicationRole::Primary => bulk("master"),
            ReplicationRole::Replica => bulk("replica"),
        });
        let fields = [
            ("id", Some(bulk(&node.id))),
            ("role", role),
            ("endpoint", node.endpoint.as_deref().map(bulk)),
            ("ip", Some(bulk(&node.ip))),
            ("hostname", node.hostname.as_deref().map(bulk)),
            ("port", node.port.map(|port| number(port.into()))),
            ("tls-port", node.tls_port.map(|port| number(port.into()))),
            (
                "replication-offset",
                node.replication_offset.and_then(|offset| offset.try_into().ok()).map(number),
            ),
            ("health", Some(bulk(&node.health))),
        ];
        map(fields.into_iter().filter_map(|(name, value)| Some((bulk(name), value?))).collect())
    };
    let shard = |shard: &Shard| {
        let ends = shard.slots.iter().flat_map(|range| [range.start(), range.end()]);
        let mut fields = vec![
            (bulk("slots"), Value::Array(ends.map(|end| number(end.into())).collect())),
            (bulk("nodes"), Value::Array(shard.nodes.iter().map(node).collect())),
        ];
        fields.extend(shard.id.as_deref().map(|id| (bulk("id"), bulk(id))));
        map(fields)
    };
    Value::Array(shards.iter().map(shard).collect())
}

proptest! {
    #[test]
    fn any_reply_is_survived_and_names_only_slots(value in anything()) {
        for shard in Shard::read(&value).into_iter().flatten() {
            prop_assert!(shard.slots.iter().all(|range| range.start() <= range.end() && range.end() < SLOT_COUNT));
            prop_assert!(shard.nodes.iter().all(|node| !node.id.is_empty()));
        }
    }

    #[test]
    fn what_a_server_writes_is_read_again(shards in shards()) {
        prop_assert_eq!(Shard::read(&written(flat, &shards)), Some(shards.clone()));
        prop_assert_eq!(Shard::read(&written(Value::Map, &shards)), Some(shards));
    }
}
