//! What a server is to its data, and when that is not known.

use std::time::Duration;

use api::node::ObservedRole;
use e2e::{wait, world};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// A member of a cluster calls itself a primary in INFO long before it owns anything.
#[tokio::test]
async fn in_cluster_mode_the_slots_decide_the_role() {
    world::run("cluster-role", async |world| {
        let status = world.ready_node("member", json!({"config": {"cluster-enabled": "yes"}})).await;
        assert_eq!(status.observed_role, None, "it owns nothing and follows nobody");
        world
            .connect("member")
            .await
            .cluster_add_slots(&[valkey::SlotRange::ALL])
            .await
            .expect("should take the slots");
        wait::until("it is seen as a primary", Duration::from_secs(30), async || {
            let role = world.status("member").await.observed_role;
            if role == Some(ObservedRole::Primary) { Ok(()) } else { Err(role) }
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_loading_server_is_not_ready() {
    world::run("loading", async |world| {
        // Half a millisecond per key, 20000 keys: 10 s. A server looks at its clients after so many bytes only, and
        // these keys are few bytes.
        let spec = json!({"persistence": {"size": "64Mi"}, "config": {
            "save": "", "key-load-delay": "500", "loading-process-events-interval-bytes": "1024",
        }});
        world.ready_node("slow", spec).await;
        let fill = "for i=1,20000 do redis.call('set', 'k'..i, 'v') end return redis.call('dbsize')";
        assert_eq!(world.exec("valkey-slow-0", &["valkey-cli", "eval", fill, "0"]).await, "20000");
        world.exec("valkey-slow-0", &["valkey-cli", "save"]).await;
        world.delete::<Pod>("valkey-slow-0").await;
        world.wait_condition("slow", "Ready", "False", "ServerLoading").await;
        assert_eq!(world.status("slow").await.observed_role, None);
        world.wait_ready("slow").await;
        assert_eq!(world.exec("valkey-slow-0", &["valkey-cli", "dbsize"]).await, "20000");
    })
    .await;
}
