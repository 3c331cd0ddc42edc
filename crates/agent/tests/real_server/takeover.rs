//! A primary that crashes comes back behind the replica that has more.

use valkey::client::Value;
use valkey::role::Role;
use valkey::testing::Release;

use crate::support::cluster::{form, tell};
use crate::support::eventually;

#[tokio::test]
async fn a_crashed_primary_comes_back_as_a_replica_and_nothing_is_lost() {
    for release in Release::ALL {
        // With snapshots only, the disk is as old as the last snapshot.
        let (mut pods, connections) = form(release, "cluster-node-timeout 3000").await;
        let former = connections[0].cluster_myid().await.expect("should answer");
        let successor = connections[3].cluster_myid().await.expect("should answer");
        // A key of a slot of the first shard.
        tell(&connections[0], "SET b old").await;
        tell(&connections[0], "SAVE").await;
        tell(&connections[0], "SET b new").await;
        eventually("the replica has it", || async {
            let copies = connections[0].raw(&["WAIT", "1", "100"]).await.expect("should answer");
            (copies == Value::Int(1)).then_some(())
        })
        .await;
        pods[0].crash();
        pods[0].start();

        let connection = pods[0].connect().await;
        let log = pods[0].log();
        assert!(log.contains(&format!("its slots belong to {successor} now")), "{log}");
        assert_eq!(connection.cluster_myid().await.expect("should answer"), former);
        eventually("it follows", || async {
            let role = connection.role().await.expect("should answer");
            matches!(role, Role::Replica { port, .. } if port == pods[3].port()).then_some(())
        })
        .await;
        tell(&connection, "READONLY").await;
        for connection in [&connections[3], &connection] {
            eventually("both have the newest write", || async {
                let value = connection.raw(&["GET", "b"]).await.ok()?;
                (value == Value::BulkString(b"new".to_vec())).then_some(())
            })
            .await;
        }
        let log = pods[0].log();
        assert!(!log.contains("hush"), "{log}");
    }
}
