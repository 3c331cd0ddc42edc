//! A server in cluster mode, alone.

use valkey::SlotRange;
use valkey::cluster::Flag;
use valkey::info::ReplicationRole;
use valkey::slots::count;
use valkey::testing::Release;

use crate::support::{eventually, open, start};

#[tokio::test]
async fn a_lone_node_tells_of_itself_and_its_slots() {
    for release in Release::ALL {
        let server = start(
            release,
            "cluster-enabled yes\ncluster-announce-ip 127.0.0.1\ncluster-announce-hostname node-0.valkey",
        );
        let connection = open(&server).await;
        assert!(connection.info_all().await.expect("should answer").cluster_enabled());
        let table = connection.cluster_nodes().await.expect("should answer");
        assert_eq!((table.nodes.len(), table.unreadable), (1, 0));
        let myself = table.myself().expect("should be listed");
        assert_eq!(myself.id, connection.cluster_myid().await.expect("should answer"));
        assert!(myself.is_primary() && myself.connected && !myself.flags.contains(&Flag::Failed));
        assert_eq!((myself.address.ip.as_str(), myself.address.port), ("127.0.0.1", server.port()));
        assert_eq!(myself.address.hostname.as_deref(), Some("node-0.valkey"));
        assert!(table.slots_of_myself().is_empty());

        let halves =
            [SlotRange::new(0, 99).expect("in bounds"), SlotRange::new(200, 16383).expect("in bounds")];
        connection.cluster_add_slots(&halves).await.expect("should take slots");
        let middle = SlotRange::new(150, 150).expect("in bounds");
        connection.cluster_add_slots(&[middle]).await.expect("should take a slot");
        connection.cluster_add_slots(&[middle]).await.expect_err("should not take it twice");
        let table = connection.cluster_nodes().await.expect("should answer");
        assert_eq!(table.slots_of_myself(), [halves[0], middle, halves[1]]);

        let shards = connection.cluster_shards().await.expect("should answer");
        assert_eq!(shards.len(), 1);
        assert_eq!(count(&shards[0].slots), 16384 - 99);
        let node = &shards[0].nodes[0];
        assert_eq!((node.role, node.port), (Some(ReplicationRole::Primary), Some(server.port())));
        assert_eq!((node.health.as_str(), node.hostname.as_deref()), ("online", Some("node-0.valkey")));
    }
}

#[tokio::test]
async fn moving_slots_are_seen() {
    for release in Release::ALL {
        let conf = "cluster-enabled yes\ncluster-announce-ip 127.0.0.1";
        let (first, second) = (start(release, conf), start(release, conf));
        let (source, target) = (open(&first).await, open(&second).await);
        source.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
        let bus = target.config_get(&["cluster-port"]).await.expect("should answer")["cluster-port"].clone();
        let port = second.port().to_string();
        source.raw(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await.expect("should meet");
        let other = eventually("the nodes know each other", || async {
            let table = source.cluster_nodes().await.expect("should answer");
            let known = |node: &&valkey::cluster::Node| {
                !node.flags.contains(&Flag::Myself) && !node.flags.contains(&Flag::Handshake)
            };
            table.nodes.iter().find(known).map(|node| node.id.clone())
        })
        .await;
        source.raw(&["CLUSTER", "SETSLOT", "77", "MIGRATING", &other]).await.expect("should mark");
        let table = source.cluster_nodes().await.expect("should answer");
        assert_eq!(table.unreadable, 0);
        let moving = &table.myself().expect("should be listed").migrating;
        assert_eq!((moving[0].slot, &moving[0].node_id), (77, &other));
    }
}
