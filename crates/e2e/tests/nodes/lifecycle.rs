//! From a manifest to a server and back: creation, columns, another image, deletion.

use std::time::Duration;

use api::ValkeyNode;
use api::node::ObservedRole;
use e2e::nodes::{OLD_IMAGE, condition};
use e2e::objects::uid;
use e2e::{wait, world};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use kube::ResourceExt as _;
use serde_json::json;

#[tokio::test]
async fn a_stateful_set_node_becomes_ready_with_all_its_objects() {
    world::run("lifecycle", async |world| {
        let node = world.node("one", json!({})).await;
        let status = world.wait_ready("one").await;

        let set = world.get::<StatefulSet>("valkey-one").await;
        let service = world.get::<Service>("valkey-one").await;
        let config = world.get::<ConfigMap>("valkey-one").await;
        let pod = world.get::<Pod>("valkey-one-0").await;
        let metas =
            [set.metadata.clone(), service.metadata.clone(), config.metadata.clone(), pod.metadata.clone()];
        for meta in &metas {
            let labels = meta.labels.clone().unwrap_or_default();
            assert_eq!(labels["app.kubernetes.io/name"], "valkey");
            assert_eq!(labels["app.kubernetes.io/instance"], "one");
            assert_eq!(labels["app.kubernetes.io/managed-by"], "valkey-operator");
            assert_eq!(meta.annotations.clone().unwrap_or_default()["valkey.io/cr"], "one");
        }
        for meta in &metas[..3] {
            let owner = &meta.owner_references.as_ref().expect("should have an owner")[0];
            assert_eq!((owner.uid.as_str(), owner.controller), (uid(&node).as_str(), Some(true)));
        }
        assert_eq!(pod.labels()["valkey-pod-extra-selector"], "one-node-pod-0");
        let service = service.spec.expect("should have a spec");
        assert_eq!(service.cluster_ip.as_deref(), Some("None"));
        assert_eq!(service.publish_not_ready_addresses, Some(true));
        assert_eq!(set.spec.expect("should have a spec").replicas, Some(1));

        assert_eq!(status.pod_name.as_deref(), Some("valkey-one-0"));
        assert_eq!(status.pod_ip, pod.status.expect("should have a status").pod_ip);
        assert_eq!(status.service_name.as_deref(), Some("valkey-one"));
        assert_eq!(status.observed_role, Some(ObservedRole::Primary));
        assert!(
            status.server_version.as_deref().is_some_and(|version| version.starts_with("9.1")),
            "{status:?}"
        );
        for (type_, state, reason) in [
            ("Ready", "True", "PodRunning"),
            ("Progressing", "False", "Stable"),
            ("ResourcesReady", "True", "AllHealthy"),
            ("StatefulSetReady", "True", "ReplicaAvailable"),
            ("LiveConfigApplied", "True", "Applied"),
            ("WorkloadRollPending", "False", "UpToDate"),
        ] {
            world.wait_condition("one", type_, state, reason).await;
        }
        let status = world.status("one").await;
        assert_eq!(condition(&status, "StatefulSetReady").expect("should be there").2, "1/1 ready replicas");
        assert_eq!(condition(&status, "PersistentVolumeClaimReady"), None);
        let events = world.events_about("one").await;
        assert!(events.iter().any(|event| event.starts_with("Ready: ")), "{events:?}");

        // Its name resolves, in a pod, to its address.
        let named = format!("valkey-one.{}.svc.cluster.local", world.namespace);
        let answer = world.exec("valkey-one-0", &["valkey-cli", "-h", &named, "ping"]).await;
        assert_eq!(answer, "PONG");
    })
    .await;
}

#[tokio::test]
async fn columns_show_a_primary_and_its_replica() {
    world::run("columns", async |world| {
        let (first, _second) =
            tokio::join!(world.ready_node("first", json!({})), world.ready_node("second", json!({})));
        let primary = first.pod_ip.clone().expect("should have an address");
        // What an owner of nodes would do: the node controller itself never touches the topology.
        world.connect("second").await.replicaof(Some((&primary, 6379))).await.expect("should follow");
        wait::until("second is seen as a replica", Duration::from_secs(30), async || {
            let status = world.status("second").await;
            match status.observed_replica_of.as_deref() {
                Some("first") if status.observed_role == Some(ObservedRole::Replica) => Ok(()),
                _ => Err(status),
            }
        })
        .await;

        let table = world.kubectl(&["get", "valkeynode"]).await;
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["NAME", "READY", "ROLE", "POD-IP", "REPLICA-OF", "AGE"], "{table}");
        assert_eq!(lines[1][..4], ["first", "True", "primary", primary.as_str()], "{table}");
        assert_eq!(lines[2][..3], ["second", "True", "replica"], "{table}");
        assert_eq!(lines[2][4], "first", "{table}");

        let wide = world.kubectl(&["get", "vkn", "-o", "wide"]).await;
        let lines: Vec<Vec<&str>> = wide.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[0],
            ["NAME", "READY", "ROLE", "POD-IP", "WORKLOAD", "POD-NAME", "REPLICA-OF", "AGE"],
            "{wide}"
        );
        assert_eq!(lines[2][4..7], ["StatefulSet", "valkey-second-0", "first"], "{wide}");
    })
    .await;
}

#[tokio::test]
async fn another_image_replaces_the_pod() {
    world::run("another-image", async |world| {
        let before = world.ready_node("up", json!({"image": OLD_IMAGE})).await;
        assert!(before.server_version.is_some_and(|version| version.starts_with("8.1")));
        let old_pod = uid(&world.get::<Pod>("valkey-up-0").await);
        world.change("up", json!({"image": e2e::nodes::IMAGE})).await;
        let after = wait::until("the new version runs", e2e::nodes::PATIENCE, async || {
            let status = world.status("up").await;
            let new = status.server_version.as_deref().is_some_and(|version| version.starts_with("9.1"));
            if new && status.ready { Ok(status) } else { Err(status) }
        })
        .await;
        assert_ne!(uid(&world.get::<Pod>("valkey-up-0").await), old_pod);
        assert_eq!(after.pending_workload_revision, None);
    })
    .await;
}

#[tokio::test]
async fn deleting_a_node_removes_its_objects_and_keeps_its_volume() {
    world::run("deletion", async |world| {
        world.ready_node("kept", json!({"persistence": {"size": "64Mi"}, "config": {"appendonly": "yes", "appendfsync": "always"}})).await;
        world.connect("kept").await.raw(&["SET", "who", "me"]).await.expect("should write");
        let claim = uid(&world.get::<PersistentVolumeClaim>("valkey-kept-data").await);
        world.delete::<ValkeyNode>("kept").await;
        wait::until("everything else is gone", Duration::from_mins(1), async || {
            let left = (
                world.find::<StatefulSet>("valkey-kept").await.is_some(),
                world.find::<Service>("valkey-kept").await.is_some(),
                world.find::<ConfigMap>("valkey-kept").await.is_some(),
                world.find::<Pod>("valkey-kept-0").await.is_some(),
            );
            if left == (false, false, false, false) { Ok(()) } else { Err(left) }
        })
        .await;
        assert_eq!(uid(&world.get::<PersistentVolumeClaim>("valkey-kept-data").await), claim);

        // A node of the same name finds its data again.
        world.ready_node("kept", json!({"persistence": {"size": "64Mi"}, "config": {"appendonly": "yes"}})).await;
        assert_eq!(world.exec("valkey-kept-0", &["valkey-cli", "get", "who"]).await, "me");
    })
    .await;
}

#[tokio::test]
async fn reclaim_policy_delete_removes_the_volume() {
    world::run("reclaim-delete", async |world| {
        world.ready_node("gone", json!({"persistence": {"size": "64Mi", "reclaimPolicy": "Delete"}})).await;
        world.delete::<ValkeyNode>("gone").await;
        wait::until("the claim is gone", Duration::from_mins(1), async || {
            match world.find::<PersistentVolumeClaim>("valkey-gone-data").await {
                None => Ok(()),
                Some(claim) => Err(claim.metadata),
            }
        })
        .await;
    })
    .await;
}
