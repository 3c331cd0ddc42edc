//! Clusters that speak TLS with a certificate somebody gave.

use std::time::Duration;

use api::cluster::ClusterPhase;
use e2e::clusters::Authority;
use e2e::faults::Fault;
use e2e::{wait, world};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use valkey::Connection;

fn speaking_tls(secret: &str) -> Value {
    json!({
        "shards": 3, "replicas": 1,
        "networking": {"tls": {"certificates": {"server": {"secretName": secret}}}},
    })
}

/// Clients, replication, the bus between the nodes, the exporter, and a shard that loses its primary.
#[tokio::test]
async fn a_cluster_with_a_certificate_speaks_tls_and_nothing_else() {
    world::run("tls", async |world| {
        let authority = Authority::new("the team's own");
        let secret = authority.secret(&["*.valkey-safe.team.svc"]);
        world.create::<Secret>(json!({"metadata": {"name": "certificate"}, "stringData": secret})).await;
        world.witnessed_cluster("safe", speaking_tls("certificate")).await;
        let server = world.cluster_servers("safe").await.remove(0);
        let mut plain = server.target.clone();
        plain.tls = None;
        assert!(Connection::open(&plain).await.is_err(), "without TLS nobody is let in");

        let shard = world.cluster_status("safe").await.shard_details.remove(1);
        let primary = world.cluster_server("safe", &shard.primary.expect("should have a primary")).await;
        let kill = async {
            let in_place = Fault::PodDeleted.begin(world, std::slice::from_ref(&primary.pod)).await;
            in_place.mend(world).await;
            wait::until("another pod has its place", Duration::from_mins(1), async || {
                let now = world.cluster_servers("safe").await;
                let now = now
                    .iter()
                    .find(|server| server.node == primary.node)
                    .map(|server| server.pod.metadata.uid.clone());
                if now.is_some_and(|uid| uid != primary.pod.metadata.uid) { Ok(()) } else { Err("not yet") }
            })
            .await;
        };
        let (verdict, took) = world.under_witness("safe", Box::pin(kill)).await;
        eprintln!("pod of a primary deleted: whole again after {took:?}\n{verdict}");
        verdict.assert_nothing_lost();
    })
    .await;
}

/// Nothing is started with a certificate that cannot work, and what runs is left alone.
#[tokio::test]
async fn a_certificate_that_cannot_work_is_reported_before_anything_is_made() {
    world::run("tls-bad", async |world| {
        let (authority, other) = (Authority::new("one"), Authority::new("another"));
        let refused = async |words: &str| {
            let told = world.wait_cluster_condition("safe", "Ready", "False", "TlsSecretUnusable").await;
            assert!(told.contains(words), "{told}");
        };
        world.cluster("safe", speaking_tls("certificate")).await;
        refused("certificate of networking.tls does not exist").await;
        let mut parts = authority.secret(&["safe.team.svc"]);
        parts["ca.crt"] = json!(other.pem());
        world.create::<Secret>(json!({"metadata": {"name": "certificate"}, "stringData": parts})).await;
        wait::until("the CA is found to be another one", Duration::from_secs(20), async || {
            let told = world.cluster_status("safe").await.message.unwrap_or_default();
            if told.contains("not trusted by its own CA") { Ok(()) } else { Err(told) }
        })
        .await;
        let pods: Vec<_> = world.cluster_pods("safe").await.into_iter().flatten().collect();
        assert!(pods.is_empty(), "{pods:?}");
        let good = authority.secret(&["safe.team.svc"]);
        world.patch::<Secret>("certificate", json!({"stringData": good})).await;
        world.wait_cluster_ready("safe").await;

        // A Secret that becomes unusable hurts nobody who runs.
        world.patch::<Secret>("certificate", json!({"stringData": {"tls.key": "nonsense"}})).await;
        wait::until("the key is found to be none", Duration::from_secs(20), async || {
            let status = world.cluster_status("safe").await;
            let told = status.message.unwrap_or_default();
            let known = told.contains("key") && status.phase == Some(ClusterPhase::Error);
            if known { Ok(()) } else { Err(told) }
        })
        .await;
        world.patch::<Secret>("certificate", json!({"stringData": good})).await;
        let status = world.wait_cluster_ready("safe").await;
        assert_eq!(status.summary.map(|summary| summary.nodes).as_deref(), Some("6/6"));
    })
    .await;
}
