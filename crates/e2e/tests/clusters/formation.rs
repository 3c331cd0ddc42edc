//! Ten lines become a cluster, and its status tells the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api::ValkeyClusterStatus;
use api::cluster::{BudgetMode, ClusterPhase};
use e2e::clusters::condition;
use e2e::{World, world};
use serde_json::Value;

const MANIFEST: &str = r"
apiVersion: valkey.io/v1alpha1
kind: ValkeyCluster
metadata:
  name: shop
spec:
  shards: 3
  replicas: 1
  config:
    maxmemory: 64mb
";

#[tokio::test]
async fn ten_lines_become_a_cluster() {
    world::run("formation", async |world| {
        let manifest = serde_saphyr::from_str::<Value>(MANIFEST).expect("should be YAML");
        assert!(MANIFEST.trim().lines().count() <= 10);
        let begun = Instant::now();
        world.create::<api::ValkeyCluster>(manifest).await;
        let status = world.wait_cluster_ready("shop").await;
        eprintln!("3 shards with 1 replica each: ready after {:?}", begun.elapsed());

        check_summary(&status);
        check_conditions(&status);
        check_shards(world, &status).await;
        world.wait_whole("shop", Duration::from_secs(10)).await;
        check_columns(world).await;
        check_scale(world).await;
        for event in ["Forming: ", "Formed: ", "Ready: "] {
            world.wait_event("shop", event).await;
        }
    })
    .await;
}

fn check_summary(status: &ValkeyClusterStatus) {
    assert_eq!(status.phase, Some(ClusterPhase::Ready));
    assert_eq!(status.reason.as_deref(), Some("ClusterHealthy"));
    assert_eq!((status.shards, status.ready_shards), (3, 3));
    let summary = status.summary.as_ref().expect("should be there");
    assert_eq!(
        (summary.shards.as_str(), summary.nodes.as_str(), summary.slots.as_str()),
        ("3/3", "6/6", "16384/16384")
    );
    assert_eq!(status.pod_disruption_budget.map(|budget| budget.mode), Some(BudgetMode::Normal));
    let images = status.images.as_ref().expect("should be there");
    assert!(images.server.is_some() && images.exporter.is_some() && images.agent.is_some(), "{images:?}");
    let acl = status.acl.as_ref().expect("should be there");
    assert!(acl.synced && acl.revision.is_some(), "{acl:?}");
}

fn check_conditions(status: &ValkeyClusterStatus) {
    let expected = [
        ("Ready", "True", "ClusterHealthy"),
        ("Progressing", "False", "Stable"),
        ("Degraded", "False", "ClusterHealthy"),
        ("ClusterFormed", "True", "Formed"),
        ("SlotsAssigned", "True", "AllSlotsAssigned"),
        ("UsersApplied", "True", "UsersInStep"),
        ("AuthFallback", "False", "NoFallback"),
        ("ConfigurationWarning", "False", "ConfigurationClean"),
    ];
    for (type_, state, reason) in expected {
        let (is, why, message) = condition(status, type_).unwrap_or_else(|| panic!("{type_} is missing"));
        assert_eq!((is.as_str(), why.as_str()), (state, reason), "{type_}: {message}");
        assert!(!message.is_empty(), "{type_} should say something");
    }
}

/// What the status says of each shard is what its servers say of themselves.
async fn check_shards(world: &World, status: &ValkeyClusterStatus) {
    let mut servers = BTreeMap::new();
    for server in world.cluster_servers("shop").await {
        let table = server.open().await.expect("should answer").cluster_nodes().await.expect("should answer");
        servers.insert(server.node, table.myself().expect("should know itself").clone());
    }
    let indices: Vec<i32> = status.shard_details.iter().map(|shard| shard.index).collect();
    assert_eq!(indices, [0, 1, 2]);
    let mut nodes = BTreeSet::new();
    for shard in &status.shard_details {
        let primary = shard.primary.as_ref().expect("should have a primary");
        let server = &servers[primary];
        let slots: Vec<String> = server.slots.iter().map(ToString::to_string).collect();
        assert!(server.is_primary() && shard.ready, "{shard:?}");
        assert_eq!(shard.slots, slots.join(","), "slots of {primary}");
        assert_eq!(shard.replicas.len(), 1, "{shard:?}");
        nodes.insert(primary.clone());
        for replica in &shard.replicas {
            let copy = &servers[&replica.node];
            assert_eq!(copy.primary_id.as_ref(), Some(&server.id), "{} follows {primary}", replica.node);
            assert!(replica.in_sync, "{shard:?}");
            nodes.insert(replica.node.clone());
        }
    }
    let expected = ["shop-0-0", "shop-0-1", "shop-1-0", "shop-1-1", "shop-2-0", "shop-2-1"];
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), expected);
}

async fn check_columns(world: &World) {
    let table = world.kubectl(&["get", "vkc", "shop"]).await;
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words[..7], ["NAME", "PHASE", "SHARDS", "NODES", "SLOTS", "VERSION", "AGE"], "{table}");
    assert_eq!(words[7..12], ["shop", "Ready", "3/3", "6/6", "16384/16384"], "{table}");
    assert!(words[12].starts_with("9."), "{table}");
    let wide = world.kubectl(&["get", "valkeycluster", "shop", "-o", "wide"]).await;
    assert!(wide.contains("MESSAGE") && wide.contains("3 shards serve all 16384 slots"), "{wide}");
    eprintln!("{wide}");
}

async fn check_scale(world: &World) {
    let path = format!("/apis/valkey.io/v1alpha1/namespaces/{}/valkeyclusters/shop/scale", world.namespace);
    let scale: Value =
        serde_json::from_str(&world.kubectl(&["get", "--raw", &path]).await).expect("should be JSON");
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&3.into(), &3.into()), "{scale}");
    let selector = scale["status"]["selector"].as_str().expect("should select the pods");
    let pods = world.kubectl(&["get", "pods", "-l", selector, "-o", "name"]).await;
    assert_eq!(pods.lines().count(), 6, "{pods}");
}
