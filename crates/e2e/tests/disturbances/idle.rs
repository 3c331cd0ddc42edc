//! Idle means idle.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::certificates::BindingPhase;
use api::{ValkeyCertificateBinding, ValkeyCertificateBundle, ValkeyCluster, ValkeyNode};
use e2e::objects::Kind;
use e2e::{World, operator, wait, world};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

/// Things that happen now and then would happen in this time.
const QUIET: Duration = Duration::from_secs(15);

async fn versions<K: Kind>(world: &World, into: &mut BTreeMap<String, String>) {
    for object in world.api::<K>().list(&ListParams::default()).await.expect("should list") {
        let key = format!("{} {}", K::kind(&()), object.name_any());
        into.insert(key, object.resource_version().unwrap_or_default());
    }
}

async fn all_versions(world: &World) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    versions::<ValkeyCluster>(world, &mut all).await;
    versions::<ValkeyNode>(world, &mut all).await;
    versions::<ValkeyCertificateBundle>(world, &mut all).await;
    versions::<ValkeyCertificateBinding>(world, &mut all).await;
    versions::<StatefulSet>(world, &mut all).await;
    versions::<Deployment>(world, &mut all).await;
    versions::<Pod>(world, &mut all).await;
    versions::<Service>(world, &mut all).await;
    versions::<ConfigMap>(world, &mut all).await;
    versions::<PersistentVolumeClaim>(world, &mut all).await;
    versions::<Secret>(world, &mut all).await;
    versions::<PodDisruptionBudget>(world, &mut all).await;
    versions::<Event>(world, &mut all).await;
    all
}

async fn everything_stands_still(world: &World) {
    wait::until("objects stand still", Duration::from_mins(2), async || {
        let before = all_versions(world).await;
        tokio::time::sleep(QUIET).await;
        let after = all_versions(world).await;
        if before == after { Ok(()) } else { Err(moved(&before, &after)) }
    })
    .await;
}

/// Watches for a minute.
async fn nothing_is_written(world: &World, of: &str) {
    let before = all_versions(world).await;
    let since = Timestamp::now();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let after = all_versions(world).await;
    assert_eq!(after, before, "an object moved by itself");
    let calls = world.local().audit_since(since).expect("should read the audit log");
    let ours: Vec<_> = calls.iter().filter(|call| call.user.contains(operator::NAMESPACE)).collect();
    let writes: Vec<_> = ours.iter().filter(|call| call.resource != "leases").collect();
    assert!(writes.is_empty(), "the operator wrote while nothing happened: {writes:#?}");
    eprintln!("idle for 60 s with {of}: {} renewals of the Lease and nothing else", ours.len());
    assert!((4..=13).contains(&ours.len()), "the Lease is renewed every 5 s: {}", ours.len());
}

fn moved(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let names = after.iter().filter(|(name, version)| before.get(*name) != Some(version));
    names.map(|(name, _)| name.clone()).collect()
}

/// How often each command was run on the servers of a cluster, over all of them.
async fn commands(world: &World, cluster: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for server in world.cluster_servers(cluster).await {
        let info = server.open().await.expect("should answer").info_all().await.expect("should answer");
        for (name, figures) in info.fields() {
            let Some(command) = name.strip_prefix("cmdstat_") else { continue };
            let calls = figures.split(',').find_map(|figure| figure.strip_prefix("calls=")?.parse().ok());
            *all.entry(command.to_owned()).or_default() += calls.unwrap_or(0);
        }
    }
    all
}

/// Every pass over a cluster or a node knew from the agents that nothing is to be done.
fn nobody_was_asked(passes: &BTreeMap<String, u64>) {
    eprintln!("passes meanwhile: {passes:?}");
    for kind in ["ValkeyCluster", "ValkeyNode"] {
        let of_kind = passes.iter().filter(|(labels, _)| labels.contains(&format!("kind=\"{kind}\"")));
        let (heard, others): (Vec<_>, Vec<_>) =
            of_kind.partition(|(labels, _)| labels.contains("outcome=\"heard\""));
        assert!(!heard.is_empty(), "{kind}: {passes:?}");
        assert!(others.is_empty(), "{kind}: servers were asked while nothing happened: {others:?}");
    }
}

#[tokio::test]
async fn idle_means_no_writes() {
    world::run("idle", async |world| {
        for number in 0..10 {
            let spec = match number % 3 {
                0 => json!({"workloadType": "Deployment", "config": {"maxmemory": "64mb", "save": "900 1"}}),
                1 => json!({"workloadType": "Pod"}),
                _ => json!({"persistence": {"size": "32Mi"}, "config": {"client-output-buffer-limit": "replica 256mb 64mb 60"}}),
            };
            world.node(&format!("n{number}"), spec).await;
        }
        for number in 0..10 {
            world.wait_ready(&format!("n{number}")).await;
        }
        everything_stands_still(world).await;
        nothing_is_written(world, "10 nodes").await;
    })
    .await;
}

/// Certificates that are there, and one that is waited for.
async fn certificates(world: &World) {
    let cluster = json!({"name": "big"});
    let bundle = json!({"metadata": {"name": "own-mtls"}, "spec": {"clusterRef": cluster}});
    world.create::<ValkeyCertificateBundle>(bundle).await;
    for (name, bundle, phase) in
        [("issued", "own-mtls", BindingPhase::Applied), ("waiting", "none", BindingPhase::WaitingForBundle)]
    {
        let certificate = json!({"component": "sidecar", "bundleRef": {"name": bundle}, "secretName": name});
        let spec = json!({"clusterRef": cluster, "certificates": [certificate]});
        world.create::<ValkeyCertificateBinding>(json!({"metadata": {"name": name}, "spec": spec})).await;
        wait::until("the certificate is as expected", Duration::from_secs(30), async || {
            let status = world.get::<ValkeyCertificateBinding>(name).await.status.unwrap_or_default();
            if status.phase == Some(phase) { Ok(()) } else { Err(status.message) }
        })
        .await;
    }
}

#[tokio::test]
async fn idle_clusters_are_left_alone() {
    world::run("idle-clusters", async |world| {
        world.cluster("big", json!({"shards": 3, "replicas": 1, "persistence": {"size": "32Mi"}})).await;
        for number in 0..4 {
            world.cluster(&format!("c{number}"), json!({"shards": 1, "replicas": 0})).await;
        }
        for name in ["big", "c0", "c1", "c2", "c3"] {
            world.wait_cluster_ready(name).await;
        }
        certificates(world).await;
        for name in ["big", "c0", "c1", "c2", "c3"] {
            world.wait_cluster_condition(name, "SidecarsConnected", "True", "SidecarsHeard").await;
        }
        // Passes that still settle something are counted too.
        everything_stands_still(world).await;
        let before = commands(world, "big").await;
        let begun = Instant::now();
        let passes = operator::counted(&world.client, "valkey_operator_reconciles", async {
            nothing_is_written(world, "5 clusters").await;
        })
        .await;
        nobody_was_asked(&passes);
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        let after = commands(world, "big").await;
        eprintln!("commands a minute, over the 6 servers of a cluster:");
        for (command, calls) in after {
            let more = calls - before.get(&command).copied().unwrap_or(0);
            let rate = f64::from(u32::try_from(more).unwrap_or(u32::MAX)) / minutes;
            if more > 0 {
                eprintln!("  {rate:7.1} {command}");
            }
        }
    })
    .await;
}
