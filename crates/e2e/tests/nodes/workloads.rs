//! The other workload types.

use e2e::objects::uid;
use e2e::witness::single::Witness;
use e2e::{wait, world};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::json;

#[tokio::test]
async fn a_deployment_node_works() {
    world::run("deployment", async |world| {
        let status = world.ready_node("dep", json!({"workloadType": "Deployment"})).await;
        let deployment = world.get::<Deployment>("valkey-dep").await.spec.expect("should have a spec");
        assert_eq!(deployment.strategy.and_then(|strategy| strategy.type_).as_deref(), Some("Recreate"));
        assert!(world.find::<StatefulSet>("valkey-dep").await.is_none());
        assert!(e2e::nodes::condition(&status, "StatefulSetReady").is_none());
        let pod = status.pod_name.expect("should know its pod");
        assert!(pod.starts_with("valkey-dep-"));
        world.delete::<Pod>(&pod).await;
        wait::until("another pod took over", e2e::nodes::PATIENCE, async || {
            let status = world.status("dep").await;
            if status.ready && status.pod_name.as_ref() != Some(&pod) { Ok(()) } else { Err(status.pod_name) }
        })
        .await;
        world.change("dep", json!({"image": e2e::nodes::OLD_IMAGE})).await;
        wait::until("the other image runs", e2e::nodes::PATIENCE, async || {
            let status = world.status("dep").await;
            let old = status.server_version.as_deref().is_some_and(|version| version.starts_with("8.1"));
            if status.ready && old { Ok(()) } else { Err(status) }
        })
        .await;
    })
    .await;
}

/// The pod is deleted, then replaced by a changed spec, while a writer runs: with an append-only file that is synced at
/// each write, nothing that was acknowledged may be gone.
#[tokio::test]
async fn a_pod_node_is_recreated_and_keeps_its_data() {
    world::run("pod", async |world| {
        let spec = json!({
            "workloadType": "Pod",
            "persistence": {"size": "64Mi"},
            "config": {"appendonly": "yes", "appendfsync": "always"},
        });
        world.ready_node("bare", spec).await;
        assert!(world.find::<StatefulSet>("valkey-bare").await.is_none());
        let first = uid(&world.get::<Pod>("valkey-bare-0").await);
        let claim = uid(&world.get::<PersistentVolumeClaim>("valkey-bare-data").await);

        let witness = Witness::start(world.server("bare").await, "deleted").await;
        world.delete::<Pod>("valkey-bare-0").await;
        let second = wait_for_other_pod(world, "bare", &first).await;
        witness.verdict(&world.server("bare").await).await.assert_nothing_lost();

        let witness = Witness::start(world.server("bare").await, "changed").await;
        world.change("bare", json!({"resources": {"requests": {"cpu": "10m"}}})).await;
        wait_for_other_pod(world, "bare", &second).await;
        witness.verdict(&world.server("bare").await).await.assert_nothing_lost();
        assert_eq!(uid(&world.get::<PersistentVolumeClaim>("valkey-bare-data").await), claim);

        // The same DNS name as a StatefulSet's pod has.
        let named = format!("valkey-bare-0.valkey-bare.{}.svc.cluster.local", world.namespace);
        assert_eq!(world.exec("valkey-bare-0", &["valkey-cli", "-h", &named, "ping"]).await, "PONG");
    })
    .await;
}

async fn wait_for_other_pod(world: &e2e::World, node: &str, before: &str) -> String {
    let name = api::names::pod(node);
    let other = wait::until("another pod is there", e2e::nodes::PATIENCE, async || {
        match world.find::<Pod>(&name).await {
            Some(pod) if uid(&pod) != before => Ok(uid(&pod)),
            pod => Err(pod.map(|pod| pod.metadata)),
        }
    })
    .await;
    world.wait_ready(node).await;
    other
}
