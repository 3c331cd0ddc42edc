//! Other numbers, other workloads, another release.

use std::time::{Duration, Instant};

use e2e::nodes::OLD_IMAGE;
use e2e::{World, world};
use serde_json::{Value, json};

async fn forms(world: &World, name: &str, spec: Value) {
    let begun = Instant::now();
    let status = world.ready_cluster(name, spec.clone()).await;
    world.wait_whole(name, Duration::from_secs(10)).await;
    eprintln!("{spec}: ready after {:?}", begun.elapsed());
    let (shards, replicas) = (spec["shards"].as_u64(), spec["replicas"].as_u64());
    let (shards, replicas) = (shards.unwrap_or_default(), replicas.unwrap_or_default());
    let summary = status.summary.expect("should be there");
    assert_eq!(summary.shards, format!("{shards}/{shards}"));
    assert_eq!(summary.nodes, format!("{0}/{0}", shards * (replicas + 1)));
    assert_eq!(summary.slots, "16384/16384");
    let details = &status.shard_details;
    assert!(details.iter().all(|shard| shard.replicas.len() as u64 == replicas), "{details:?}");
}

#[tokio::test]
async fn one_server_and_two_shards_with_two_copies_form() {
    world::run("shapes", async |world| {
        forms(world, "one", json!({"shards": 1, "replicas": 0})).await;
        forms(world, "two", json!({"shards": 2, "replicas": 2})).await;
    })
    .await;
}

#[tokio::test]
async fn an_older_release_forms() {
    world::run("old-release", async |world| {
        forms(world, "old", json!({"shards": 3, "replicas": 1, "image": OLD_IMAGE})).await;
        let version = world.cluster_status("old").await.version.unwrap_or_default();
        assert!(version.starts_with("8.1."), "{version}");
    })
    .await;
}

#[tokio::test]
async fn other_workload_types_form() {
    world::run("workloads", async |world| {
        for workload_type in ["Deployment", "Pod"] {
            let name = workload_type.to_lowercase();
            forms(world, &name, json!({"shards": 1, "replicas": 1, "workloadType": workload_type})).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_examples_form() {
    world::run("cluster-examples", async |world| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        for (file, cluster) in [("valkeycluster.yaml", "cluster"), ("valkeycluster-full.yaml", "full")] {
            let path = folder.join(file);
            world.kubectl(&["apply", "-f", path.to_str().expect("should be text")]).await;
            world.wait_cluster_ready(cluster).await;
            world.delete::<api::ValkeyCluster>(cluster).await;
        }
    })
    .await;
}
