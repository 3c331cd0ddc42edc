//! A primary and its replica, seen from both sides.

use valkey::client::Section;
use valkey::info::ReplicationRole;
use valkey::role::Role;
use valkey::testing::Release;
use valkey::{Connection, Error};

use crate::support::{eventually, open, start};

async fn replication(connection: &Connection) -> valkey::info::Replication {
    let info = connection.info(&[Section::Replication]).await.expect("should answer");
    info.replication().expect("should have a role")
}

#[tokio::test]
async fn both_sides_tell_the_same_story() {
    for release in Release::ALL {
        let (first, second) = (start(release, ""), start(release, "replica-serve-stale-data no"));
        let (primary, replica) = (open(&first).await, open(&second).await);
        assert_eq!(replication(&replica).await.role, ReplicationRole::Primary);
        replica.replicaof(Some(("127.0.0.1", first.port()))).await.expect("should follow");

        let link = eventually("the link is up", || async {
            replication(&replica).await.primary.filter(|link| link.link_up)
        })
        .await;
        assert_eq!((link.host.as_str(), link.port), ("127.0.0.1", first.port()));
        assert!(link.read_only && !link.sync_in_progress && link.offset.is_some());

        let follower = eventually("the replica is online", || async {
            replication(&primary).await.replicas.into_iter().find(valkey::info::ReplicaLine::is_online)
        })
        .await;
        assert_eq!((follower.ip.as_str(), follower.port), ("127.0.0.1", second.port()));
        assert_eq!(replication(&primary).await.replication_id, replication(&replica).await.replication_id);

        primary.raw(&["SET", "key", "value"]).await.expect("should write");
        eventually("offsets meet", || async {
            let Role::Primary { offset, replicas } = primary.role().await.expect("should answer") else {
                panic!("should lead")
            };
            replicas.iter().any(|replica| replica.offset == offset).then_some(())
        })
        .await;
        let role = replica.role().await.expect("should answer");
        assert!(
            matches!(&role, Role::Replica { state, port, .. } if state == "connected" && *port == first.port()),
            "{role:?}"
        );
    }
}

#[tokio::test]
async fn a_replica_without_its_primary_says_so() {
    for release in Release::ALL {
        let mut first = start(release, "");
        let second = start(release, "replica-serve-stale-data no");
        let replica = open(&second).await;
        replica.replicaof(Some(("127.0.0.1", first.port()))).await.expect("should follow");
        eventually("the link is up", || async {
            replication(&replica).await.primary.filter(|link| link.link_up)
        })
        .await;
        first.kill();
        let link = eventually("the link is down", || async {
            replication(&replica).await.primary.filter(|link| !link.link_up)
        })
        .await;
        assert!(link.link_down_seconds.is_some());
        let error = replica.raw(&["GET", "key"]).await.expect_err("should not serve");
        assert!(matches!(error, Error::PrimaryDown { .. }) && error.is_transient(), "{error:?}");

        replica.replicaof(None).await.expect("should lead");
        assert_eq!(replication(&replica).await.role, ReplicationRole::Primary);
    }
}
