//! Directives: what is the operator's stays the operator's, what can change live does.

use std::time::Duration;

use e2e::{World, world};
use serde_json::json;

/// What must stay the same while nothing restarts: the pods, their containers, the servers' processes.
pub(crate) async fn processes(world: &World, cluster: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for server in world.cluster_servers(cluster).await {
        let info = server.open().await.expect("should answer").info_all().await.expect("should answer");
        all.push((server.node.clone(), info.server().run_id.unwrap_or_default()));
    }
    all
}

#[tokio::test]
async fn the_operators_directives_are_not_the_users_and_the_users_change_live() {
    world::run("cluster-config", async |world| {
        let config = json!({
            "cluster-enabled": "no", "Port": "1234", "cluster-announce-ip": "10.1.1.1", "maxmemory-policy": "noeviction",
        });
        world.ready_cluster("firm", json!({"shards": 2, "replicas": 1, "config": config})).await;
        let message =
            world.wait_cluster_condition("firm", "ConfigurationWarning", "True", "DirectiveIgnored").await;
        for ignored in ["cluster-enabled", "Port", "cluster-announce-ip"] {
            assert!(message.contains(ignored), "{message}");
        }
        assert!(!message.contains("maxmemory-policy"), "{message}");
        world.wait_directive("firm", "cluster-enabled", "yes", Duration::from_secs(5)).await;
        world.wait_directive("firm", "port", "6379", Duration::from_secs(5)).await;
        world.wait_event("firm", "DirectiveIgnored: ").await;

        let before = processes(world, "firm").await;
        world.change_cluster("firm", json!({"config": {"maxmemory-policy": "allkeys-lru"}})).await;
        let took =
            world.wait_directive("firm", "maxmemory-policy", "allkeys-lru", Duration::from_secs(10)).await;
        eprintln!("maxmemory-policy: on all 4 servers after {took:?}");
        let clean = json!({"cluster-enabled": null, "Port": null, "cluster-announce-ip": null});
        world.change_cluster("firm", json!({"config": clean})).await;
        world.wait_cluster_condition("firm", "ConfigurationWarning", "False", "ConfigurationClean").await;
        world.wait_cluster_ready("firm").await;
        assert_eq!(processes(world, "firm").await, before, "nothing was restarted");
    })
    .await;
}
