//! Idle means idle.

use std::collections::BTreeMap;
use std::time::Duration;

use api::ValkeyNode;
use e2e::objects::Kind;
use e2e::{World, world};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Service};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

async fn versions<K: Kind>(world: &World, into: &mut BTreeMap<String, String>) {
    for object in world.api::<K>().list(&ListParams::default()).await.expect("should list") {
        let key = format!("{} {}", K::kind(&()), object.name_any());
        into.insert(key, object.resource_version().unwrap_or_default());
    }
}

async fn all_versions(world: &World) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    versions::<ValkeyNode>(world, &mut all).await;
    versions::<StatefulSet>(world, &mut all).await;
    versions::<Deployment>(world, &mut all).await;
    versions::<Pod>(world, &mut all).await;
    versions::<Service>(world, &mut all).await;
    versions::<ConfigMap>(world, &mut all).await;
    versions::<PersistentVolumeClaim>(world, &mut all).await;
    versions::<Event>(world, &mut all).await;
    all
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
        tokio::time::sleep(Duration::from_secs(25)).await;
        let before = all_versions(world).await;
        let since = Timestamp::now();
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(all_versions(world).await, before, "an object moved by itself");
        let calls = world.local().audit_since(since).expect("should read the audit log");
        let ours: Vec<_> = calls.iter().filter(|call| call.user.contains(e2e::operator::NAMESPACE)).collect();
        let writes: Vec<_> = ours.iter().filter(|call| call.resource != "leases").collect();
        assert!(writes.is_empty(), "the operator wrote while nothing happened: {writes:#?}");
        eprintln!("idle for 60 s with 10 nodes: {} renewals of the Lease and nothing else", ours.len());
        assert!((4..=13).contains(&ours.len()), "the Lease is renewed every 5 s: {}", ours.len());
    })
    .await;
}
