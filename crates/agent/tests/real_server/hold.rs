//! A primary that is back acknowledges nothing that somebody else could throw away.

use std::fs;

use valkey::client::Value;
use valkey::testing::Release;
use valkey::{Connection, Error};

use crate::support::cluster::{form, introduce_all, tell};
use crate::support::{Pod, eventually};

/// Long enough that nobody calls anybody failed: a server alone keeps calling the cluster ok.
const CONF: &str = "appendonly yes\ncluster-node-timeout 60000";

/// The key `b` is one of the first shard.
async fn write(connection: &Connection, value: &str) -> Result<Value, Error> {
    connection.raw(&["SET", "b", value]).await
}

async fn serves(connection: &Connection) {
    eventually("it calls the cluster ok", || async {
        let info = connection.cluster_info().await.expect("should answer");
        (info.get("cluster_state") == Some("ok")).then_some(())
    })
    .await;
}

/// The write was refused, and the probe says why. It may be late on a busy machine.
async fn assert_held(pod: &Pod, answer: Result<Value, Error>) {
    let error = answer.expect_err("should not be acknowledged");
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
    eventually("the probe says why", || async {
        let (ready, said) = pod.ready();
        assert!(!ready, "{said}");
        said.contains("no write is taken before these follow").then_some(())
    })
    .await;
}

async fn directives(connection: &Connection) -> [String; 2] {
    let names = ["min-replicas-to-write", "min-replicas-max-lag"];
    let values = connection.config_get(&names).await.expect("should answer");
    names.map(|name| values[name].clone())
}

async fn assert_let_go(connection: &Connection) {
    assert_eq!(directives(connection).await, ["0", "10"]);
}

/// Every pod of a cluster is replaced by one at another address, with its volume.
fn replace(pods: &mut [Pod]) {
    for pod in pods {
        pod.crash();
        pod.move_to_a_new_pod();
    }
}

/// The replica takes over in the last moment of both, and its primary has written down before who it is.
#[tokio::test]
async fn a_primary_that_is_back_before_its_successor_acknowledges_nothing() {
    for release in Release::ALL {
        let (mut pods, connections) = form(release, CONF).await;
        write(&connections[0], "old").await.expect("should be acknowledged");
        let as_it_was = fs::read(pods[0].path("data/nodes.conf")).expect("should read");
        tell(&connections[3], "CLUSTER FAILOVER").await;
        eventually("the replica leads", || async { write(&connections[3], "new").await.ok() }).await;
        replace(&mut pods);
        fs::write(pods[0].path("data/nodes.conf"), as_it_was).expect("should write");

        let former = pods[0].run().await;
        serves(&former).await;
        assert_held(&pods[0], write(&former, "lost").await).await;

        let mut all = vec![former];
        pods[1..].iter_mut().for_each(Pod::start);
        for pod in &pods[1..] {
            all.push(pod.connect().await);
        }
        introduce_all(&pods, &all).await;
        // All the way to where it knows better.
        eventually("it sends writers to somebody else", || async {
            let error = write(&all[0], "lost").await.expect_err("should not be acknowledged");
            // As its probe does, all the time.
            pods[0].ready();
            error.to_string().contains("MOVED").then_some(())
        })
        .await;
        for pod in &pods {
            eventually("nobody waits any more", || async { pod.ready().0.then_some(()) }).await;
        }
        for connection in [&all[0], &all[3]] {
            assert_let_go(connection).await;
        }
        tell(&all[0], "READONLY").await;
        for connection in [&all[0], &all[3]] {
            eventually("both have what was acknowledged last", || async {
                let value = connection.raw(&["GET", "b"]).await.ok()?;
                (value == Value::BulkString(b"new".to_vec())).then_some(())
            })
            .await;
        }
        write(&all[3], "newer").await.expect("should be acknowledged");
    }
}

#[tokio::test]
async fn a_primary_that_is_followed_again_takes_writes_and_keeps_taking_them() {
    for release in Release::ALL {
        let (mut pods, _) = form(release, CONF).await;
        // What a user wants is no less than what is left of it afterwards.
        pods[0].configure("min-replicas-max-lag 7");
        pods[0].configure("min-replicas-to-write 1");
        replace(&mut pods);
        pods.iter_mut().for_each(Pod::start);
        let mut all = Vec::new();
        for pod in &pods {
            all.push(pod.connect().await);
        }
        serves(&all[0]).await;
        assert_held(&pods[0], write(&all[0], "early").await).await;
        introduce_all(&pods, &all).await;
        eventually("it is let go", || async { pods[0].ready().0.then_some(()) }).await;
        assert_eq!(directives(&all[0]).await, ["1", "7"]);
        eventually("it takes writes", || async { write(&all[0], "new").await.ok() }).await;
        tell(&all[0], "CONFIG SET min-replicas-to-write 0").await;
        // Its replica is not needed any more.
        pods[3].crash();
        eventually("its replica is gone", || async {
            let info = all[0].info_all().await.expect("should answer");
            (info.get("connected_slaves") == Some("0")).then_some(())
        })
        .await;
        write(&all[0], "newer").await.expect("should be acknowledged");
    }
}

#[tokio::test]
async fn a_replica_that_never_comes_back_is_waited_for_and_then_no_more() {
    let (mut pods, _) = form(Release::V9_1, CONF).await;
    replace(&mut pods);
    let primary = pods[0].run().await;
    serves(&primary).await;
    assert_held(&pods[0], write(&primary, "early").await).await;
    // Somebody who copies, and is none of its replicas.
    let mut stranger =
        Pod::new(Release::V9_1, "volatile", &format!("replicaof 127.0.0.1 {}", pods[0].port()));
    stranger.leave_the_cluster();
    let copying = stranger.run().await;
    eventually("the stranger has a copy", || async {
        let info = copying.info_all().await.expect("should answer");
        (info.get("master_link_status") == Some("up")).then_some(())
    })
    .await;
    assert_held(&pods[0], write(&primary, "early").await).await;
    // Whatever becomes of our note, the wait has an end.
    fs::write(pods[0].path("run/writes-held"), "nonsense").expect("should write");
    eventually("the probe says so", || async {
        let (ready, said) = pods[0].ready();
        assert!(!ready, "{said}");
        said.contains("failed to understand").then_some(())
    })
    .await;
    // A time that is still to come is none: the wait begins anew.
    fs::write(pods[0].path("run/held-since"), "99999999999").expect("should write");
    let (ready, said) = pods[0].ready_with(&["--replica-wait", "1s", "--wait", "5s"]);
    assert!(ready && said.contains("writes are taken again: a replica did not come back in time"), "{said}");
    write(&primary, "new").await.expect("should be acknowledged");
    assert_let_go(&primary).await;
}

#[tokio::test]
async fn nobody_waits_for_replicas_that_are_not_there_or_for_ones_it_follows_itself() {
    let mut alone = Pod::new(Release::V9_1, "kept", CONF);
    let connection = alone.run().await;
    connection.cluster_add_slots(&[valkey::SlotRange::ALL]).await.expect("should take slots");
    alone.crash();
    alone.move_to_a_new_pod();
    let connection = alone.run().await;
    assert_let_go(&connection).await;
    assert!(!alone.path("run/writes-held").exists());

    let (mut pods, _) = form(Release::V9_1, CONF).await;
    replace(&mut pods);
    let replica = pods[3].run().await;
    assert_let_go(&replica).await;
    assert!(!pods[3].path("run/writes-held").exists());

    // Nor does one whose probe could not end it.
    pods[0].write_users_without("+config|set");
    let primary = pods[0].run().await;
    assert_let_go(&primary).await;
}
