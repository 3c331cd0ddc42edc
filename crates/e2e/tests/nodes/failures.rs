//! What cannot run says why, in a condition and an event, and recovers when the cause is gone.

use std::time::Duration;

use e2e::{wait, world};
use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::json;

async fn has_event(world: &e2e::World, name: &str, reason: &str) {
    wait::until(&format!("{name} has the event {reason}"), Duration::from_secs(20), async || {
        let events = world.events_about(name).await;
        if events.iter().any(|event| event.starts_with(&format!("{reason}: "))) {
            Ok(())
        } else {
            Err(events)
        }
    })
    .await;
}

#[tokio::test]
async fn a_bad_image_is_reported_and_recovers() {
    world::run("bad-image", async |world| {
        world.node("typo", json!({"image": "valkey/valkey:no-such-tag"})).await;
        let message = world.wait_condition("typo", "Ready", "False", "ImagePullFailed").await;
        assert!(message.contains("valkey/valkey:no-such-tag"), "{message}");
        let degraded = world.wait_condition("typo", "StatefulSetReady", "False", "ReplicaUnavailable").await;
        assert!(degraded.starts_with("0/1 ready replicas: image"), "{degraded}");
        has_event(world, "typo", "ImagePullFailed").await;
        world.change("typo", json!({"image": e2e::nodes::IMAGE})).await;
        world.wait_ready("typo").await;
    })
    .await;
}

#[tokio::test]
async fn an_unschedulable_pod_is_reported() {
    world::run("unschedulable", async |world| {
        world.node("lonely", json!({"nodeSelector": {"example.com/no-such": "machine"}})).await;
        let message = world.wait_condition("lonely", "Ready", "False", "Unschedulable").await;
        assert!(message.contains("node(s) didn't match Pod's node affinity/selector"), "{message}");
        has_event(world, "lonely", "Unschedulable").await;
    })
    .await;
}

#[tokio::test]
async fn a_crash_loop_shows_the_servers_last_words() {
    world::run("crash-loop", async |world| {
        world.node("broken", json!({"config": {"databases": "many"}})).await;
        let message = world.wait_condition("broken", "Ready", "False", "CrashLooping").await;
        assert!(message.contains("exit code 1") && message.contains("databases"), "{message}");
        has_event(world, "broken", "CrashLooping").await;
        world.change("broken", json!({"config": {"databases": "32"}})).await;
        world.wait_ready("broken").await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_pod_is_reported() {
    world::run("quota", async |world| {
        world
            .create::<ResourceQuota>(json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}))
            .await;
        world.node("refused", json!({})).await;
        world.node("refused-too", json!({"workloadType": "Deployment"})).await;
        world.node("refused-pod", json!({"workloadType": "Pod"})).await;
        for name in ["refused", "refused-too"] {
            let message = world.wait_condition(name, "Ready", "False", "PodCreationFailed").await;
            assert!(message.contains("exceeded quota"), "{message}");
        }
        let message = world.wait_condition("refused-pod", "ResourcesReady", "False", "ApplyRefused").await;
        assert!(message.contains("exceeded quota"), "{message}");
        world.delete::<ResourceQuota>("none").await;
        for name in ["refused", "refused-too", "refused-pod"] {
            world.wait_ready(name).await;
        }
    })
    .await;
}
