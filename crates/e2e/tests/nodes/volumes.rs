//! Volumes: growing while the server runs, claims of others.

use std::time::Duration;

use api::ValkeyNode;
use e2e::objects::uid;
use e2e::witness::single::Witness;
use e2e::{wait, world};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use serde_json::json;

async fn data_kilobytes(world: &e2e::World, pod: &str) -> u64 {
    let table = world.exec(pod, &["df", "-k", "/data"]).await;
    let line = table.lines().last().expect("df should print a line").to_owned();
    line.split_whitespace().nth(1).and_then(|size| size.parse().ok()).expect("df should print a size")
}

#[tokio::test]
async fn a_volume_grows_while_the_server_runs() {
    world::run("growth", async |world| {
        let config = json!({"appendonly": "yes", "appendfsync": "always"});
        let status =
            world.ready_node("grow", json!({"persistence": {"size": "64Mi"}, "config": config})).await;
        assert_eq!(status.pvc_name.as_deref(), Some("valkey-grow-data"));
        world.wait_condition("grow", "PersistentVolumeClaimReady", "True", "Bound").await;
        let claim = world.get::<PersistentVolumeClaim>("valkey-grow-data").await;
        assert!(claim.owner_references().is_empty(), "a kept claim has no owner");
        assert_eq!(claim.annotations()["valkey.io/cr"], "grow");
        let pod = uid(&world.get::<Pod>("valkey-grow-0").await);
        let before = data_kilobytes(world, "valkey-grow-0").await;

        let witness = Witness::start(world.server("grow").await, "grow").await;
        world.change("grow", json!({"persistence": {"size": "160Mi"}})).await;
        wait::until("the pod sees a larger volume", Duration::from_mins(1), async || {
            let now = data_kilobytes(world, "valkey-grow-0").await;
            if now > before * 2 { Ok(()) } else { Err((before, now)) }
        })
        .await;
        let message = wait::until("the condition has the new size", Duration::from_mins(1), async || {
            let status = world.status("grow").await;
            match e2e::nodes::condition(&status, "PersistentVolumeClaimReady") {
                Some((state, reason, message))
                    if state == "True" && reason == "Bound" && message.contains("160Mi") =>
                {
                    Ok(message)
                }
                other => Err(other),
            }
        })
        .await;
        assert!(message.contains("160Mi"), "{message}");
        let verdict = witness.verdict(&world.server("grow").await).await;
        verdict.assert_nothing_lost();
        assert!(verdict.errors.is_empty(), "{verdict:?}");
        assert_eq!(uid(&world.get::<Pod>("valkey-grow-0").await), pod, "the server was not restarted");
    })
    .await;
}

#[tokio::test]
async fn an_external_claim_is_used_and_never_touched() {
    world::run("external", async |world| {
        world.node("guest", json!({"persistence": {"mode": "external", "existingClaim": "theirs"}})).await;
        world.wait_condition("guest", "PersistentVolumeClaimReady", "False", "ClaimNotFound").await;
        let claim = json!({"metadata": {"name": "theirs"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}},
        }});
        world.create::<PersistentVolumeClaim>(claim).await;
        let status = world.wait_ready("guest").await;
        assert_eq!(status.pvc_name.as_deref(), Some("theirs"));
        world.wait_condition("guest", "PersistentVolumeClaimReady", "True", "Bound").await;
        let used = world.get::<PersistentVolumeClaim>("theirs").await;
        assert!(used.labels().is_empty() && used.owner_references().is_empty(), "{:?}", used.metadata);
        assert!(!used.annotations().keys().any(|key| key.starts_with("valkey.io/")), "{:?}", used.metadata);
        assert!(
            !used
                .managed_fields()
                .iter()
                .any(|entry| entry.manager.as_deref() == Some("valkey-operator/node"))
        );
        world.delete::<ValkeyNode>("guest").await;
        wait::until("the pod is gone", Duration::from_mins(1), async || {
            world
                .find::<Pod>("valkey-guest-0")
                .await
                .map_or(Ok(()), |pod| Err(pod.metadata.deletion_timestamp))
        })
        .await;
        let kept = world.get::<PersistentVolumeClaim>("theirs").await;
        assert_eq!((uid(&kept), kept.metadata.deletion_timestamp), (uid(&used), None));
    })
    .await;
}
