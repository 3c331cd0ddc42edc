//! Directives: live where the server can, held where it cannot, refused in its own words.

use std::time::Duration;

use e2e::objects::uid;
use e2e::witness::single::Witness;
use e2e::{wait, world};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

async fn reported(world: &e2e::World, node: &str, directive: &str) -> String {
    let values = world.connect(node).await.config_get(&[directive]).await.expect("should answer");
    values.get(directive).cloned().unwrap_or_default()
}

async fn file(world: &e2e::World, node: &str) -> String {
    world.get::<ConfigMap>(&api::names::workload(node)).await.data.unwrap_or_default()["valkey.conf"].clone()
}

#[tokio::test]
async fn directives_are_applied_live() {
    world::run("live-config", async |world| {
        world.ready_node("live", json!({"config": {"maxmemory": "64mb"}})).await;
        assert_eq!(reported(world, "live", "maxmemory").await, (64 << 20).to_string());
        let pod = uid(&world.get::<Pod>("valkey-live-0").await);
        let witness = Witness::start(world.server("live").await, "live").await;
        world.change("live", json!({"config": {"maxmemory": "128mb", "save": "900 1 300 10", "maxmemory-policy": "allkeys-lru"}})).await;
        wait::until("the server has the new value", Duration::from_secs(20), async || {
            let value = reported(world, "live", "maxmemory").await;
            if value == (128 << 20).to_string() { Ok(()) } else { Err(value) }
        })
        .await;
        assert_eq!(reported(world, "live", "save").await, "900 1 300 10");
        world.wait_condition("live", "LiveConfigApplied", "True", "Applied").await;
        assert!(file(world, "live").await.contains("allkeys-lru"), "the file has it too");
        let verdict = witness.verdict(&world.server("live").await).await;
        verdict.assert_nothing_lost();
        assert!(verdict.errors.is_empty(), "{verdict:?}");
        assert_eq!(uid(&world.get::<Pod>("valkey-live-0").await), pod, "nothing was restarted");

        // A directive that is taken out keeps its value until the next start, and the status says so.
        world.change("live", json!({"config": {"maxmemory-policy": null}})).await;
        let message = world.wait_condition("live", "LiveConfigApplied", "False", "RestartRequired").await;
        assert!(message.contains("maxmemory-policy"), "{message}");
        world.delete::<Pod>("valkey-live-0").await;
        world.wait_condition("live", "LiveConfigApplied", "True", "Applied").await;
        world.wait_ready("live").await;
        assert_eq!(reported(world, "live", "maxmemory-policy").await, "noeviction");
        assert_eq!(reported(world, "live", "maxmemory").await, (128 << 20).to_string());
    })
    .await;
}

#[tokio::test]
async fn a_refused_directive_is_reported_and_nothing_changes() {
    world::run("refused-config", async |world| {
        world.ready_node("firm", json!({"config": {"maxmemory": "64mb"}})).await;
        let pod = uid(&world.get::<Pod>("valkey-firm-0").await);
        let before = file(world, "firm").await;
        world
            .change("firm", json!({"config": {"maxmemory": "128mb", "maxmemory-policy": "sometimes"}}))
            .await;
        let message = world.wait_condition("firm", "LiveConfigApplied", "False", "ServerRefused").await;
        assert!(message.contains("maxmemory-policy"), "the server's own words: {message}");
        assert_eq!(reported(world, "firm", "maxmemory").await, (64 << 20).to_string(), "all or nothing");
        assert_eq!(file(world, "firm").await, before, "a restart would start from the old file");
        wait::always("the server runs on", Duration::from_secs(12), async || {
            let status = world.status("firm").await;
            if status.ready { Ok(()) } else { Err(status.conditions) }
        })
        .await;
        assert_eq!(uid(&world.get::<Pod>("valkey-firm-0").await), pod);
        // It survives a restart, and a corrected spec is taken.
        world.delete::<Pod>("valkey-firm-0").await;
        wait::until("it is back", e2e::nodes::PATIENCE, async || {
            let status = world.status("firm").await;
            let new = world.find::<Pod>("valkey-firm-0").await.is_some_and(|now| uid(&now) != pod);
            if new && status.ready { Ok(()) } else { Err(status.conditions) }
        })
        .await;
        world.change("firm", json!({"config": {"maxmemory-policy": "allkeys-lfu"}})).await;
        world.wait_condition("firm", "LiveConfigApplied", "True", "Applied").await;
        assert_eq!(reported(world, "firm", "maxmemory").await, (128 << 20).to_string());
    })
    .await;
}

#[tokio::test]
async fn a_restart_only_directive_rolls_the_pod() {
    world::run("restart-config", async |world| {
        world.ready_node("roll", json!({})).await;
        let pod = uid(&world.get::<Pod>("valkey-roll-0").await);
        world.change("roll", json!({"config": {"databases": "32"}})).await;
        wait::until("the pod is replaced", e2e::nodes::PATIENCE, async || {
            match world.find::<Pod>("valkey-roll-0").await {
                Some(now) if uid(&now) != pod => Ok(()),
                other => Err(other.map(|pod| pod.metadata)),
            }
        })
        .await;
        world.wait_ready("roll").await;
        world.wait_condition("roll", "LiveConfigApplied", "True", "Applied").await;
        assert_eq!(reported(world, "roll", "databases").await, "32");
    })
    .await;
}
