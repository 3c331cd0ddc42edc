use proptest::prelude::*;

use super::*;

const TABLE: &str = "07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:30004@31004,host4 slave e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 0 1426238317239 4 connected\n\
    67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1 fd00::12:30002@31002,,shard-id=abc,tls-port=0 master,fail?,sparkling - 5 1426238316232 2 disconnected 5461-10922\r\n\
    e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca :30001@31001 myself,master - 0 0 1 connected 0-5459 5460 [93-<-67ed] [77->-07c3]\n\
    vars currentEpoch 6 lastVoteEpoch 0\n";

#[test]
fn reads_every_part_of_a_line() {
    let table = ClusterNodes::parse(TABLE);
    assert_eq!((table.nodes.len(), table.unreadable), (3, 0));
    let replica = &table.nodes[0];
    assert!(replica.is_replica() && replica.connected);
    assert_eq!(replica.address.hostname.as_deref(), Some("host4"));
    assert_eq!(replica.primary_id.as_deref(), Some("e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca"));
    let suspect = &table.nodes[1];
    assert_eq!((suspect.address.ip.as_str(), suspect.address.port), ("fd00::12", 30002));
    assert_eq!(suspect.address.auxiliary.get("shard-id").map(String::as_str), Some("abc"));
    assert!(suspect.flags.contains(&Flag::PossiblyFailed) && !suspect.has_failed());
    assert!(suspect.flags.contains(&Flag::Other("sparkling".to_owned())));
}

#[test]
fn myself_tells_what_moves() {
    let table = ClusterNodes::parse(TABLE);
    let myself = table.myself().expect("should be listed");
    assert_eq!(myself.address.ip, "");
    assert_eq!(crate::slots::count(table.slots_of_myself()), 5461);
    assert_eq!(myself.importing, [MovingSlot { slot: 93, node_id: "67ed".to_owned() }]);
    assert_eq!(myself.migrating, [MovingSlot { slot: 77, node_id: "07c3".to_owned() }]);
}

#[test]
fn what_cannot_be_read_is_counted() {
    let table = ClusterNodes::parse("garbage\nid 1.2.3.4:1@2 master - 0 0 1 connected 0-16384 [5] 7\n");
    assert_eq!((table.nodes.len(), table.unreadable), (1, 3));
    assert_eq!(table.nodes[0].slots, [SlotRange::new(7, 7).expect("should be a slot")]);
    assert_eq!(ClusterNodes::parse(""), ClusterNodes::default());
}

fn node() -> impl Strategy<Value = Node> {
    let range = (0..SLOT_COUNT, 0..100_u16).prop_map(|(start, length)| {
        SlotRange::new(start, (start + length).min(SLOT_COUNT - 1)).expect("in bounds")
    });
    let moving = (0..SLOT_COUNT, "[0-9a-f]{40}").prop_map(|(slot, node_id)| MovingSlot { slot, node_id });
    let flag = prop_oneof![
        Just(Flag::Myself),
        Just(Flag::Primary),
        Just(Flag::Replica),
        Just(Flag::PossiblyFailed),
        Just(Flag::Failed),
        Just(Flag::Handshake),
        Just(Flag::NoAddress),
        Just(Flag::NoFailover),
        "[a-z]{12}".prop_map(Flag::Other),
    ];
    let address = (
        prop_oneof!["[0-9]{1,3}(\\.[0-9]{1,3}){3}", "fd00(:[0-9a-f]{1,4}){1,7}", Just(String::new())],
        any::<u16>(),
        prop::option::of(any::<u16>()),
        prop::option::of("[a-z][a-z0-9.-]{0,20}"),
        prop::collection::btree_map("[a-z-]{1,10}", "[a-z0-9]{0,10}", 0..3),
    )
        .prop_map(|(ip, port, bus_port, hostname, auxiliary)| Address {
            ip,
            port,
            bus_port,
            hostname,
            auxiliary,
        });
    (
        ("[0-9a-f]{40}", address, prop::collection::btree_set(flag, 0..4), prop::option::of("[0-9a-f]{40}")),
        (any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()),
        prop::collection::vec(range, 0..5),
        prop::collection::vec(moving.clone(), 0..3),
        prop::collection::vec(moving, 0..3),
    )
        .prop_map(|((id, address, flags, primary_id), numbers, slots, migrating, importing)| Node {
            id,
            address,
            flags,
            primary_id,
            ping_sent: numbers.0,
            pong_received: numbers.1,
            config_epoch: numbers.2,
            connected: numbers.3,
            slots,
            migrating,
            importing,
        })
}

proptest! {
    #[test]
    fn lines_survive_a_round_trip(nodes in prop::collection::vec(node(), 0..4), crlf in any::<bool>()) {
        let end = if crlf { "\r\n" } else { "\n" };
        let text = nodes.iter().map(|node| format!("{node}{end}")).collect::<Vec<_>>().concat();
        prop_assert_eq!(ClusterNodes::parse(&text), ClusterNodes { nodes, unreadable: 0 });
    }

    #[test]
    fn any_text_is_survived_and_slots_stay_in_bounds(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        tail in "([0-9]{1,6}|-|\\[|\\]|<|>| |a){0,40}",
    ) {
        let garbage = String::from_utf8_lossy(&bytes).into_owned();
        for text in [garbage, format!("id 1.2.3.4:1@2 myself,master - 0 0 1 connected {tail}")] {
            let table = ClusterNodes::parse(&text);
            for node in &table.nodes {
                prop_assert!(node.slots.iter().all(|range| range.end() < SLOT_COUNT));
                prop_assert!(node.migrating.iter().chain(&node.importing).all(|moving| moving.slot < SLOT_COUNT));
            }
        }
    }
}
