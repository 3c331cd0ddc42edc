//! Somebody deletes or changes objects of a cluster: they come back as they were, and nobody is disturbed.

use std::time::Duration;

use e2e::objects::{Kind, uid};
use e2e::{World, wait, world};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use crate::config::processes;

const SOON: Duration = Duration::from_secs(30);

async fn comes_back<K: Kind>(world: &World, name: &str) -> K {
    let before = uid(&world.get::<K>(name).await);
    world.delete::<K>(name).await;
    let what = format!("{} {name} is there again", K::kind(&()));
    wait::until(&what, SOON, async || match world.find::<K>(name).await {
        Some(now) if uid(&now) != before && now.meta().deletion_timestamp.is_none() => Ok(now),
        other => Err(other.map(|object| object.meta().clone())),
    })
    .await
}

#[tokio::test]
async fn deleted_objects_come_back_and_nothing_restarts() {
    world::run("cluster-drift", async |world| {
        world.ready_cluster("whole", json!({"shards": 2, "replicas": 1})).await;
        let before = processes(world, "whole").await;
        let users = world.get::<Secret>("internal-whole-acl").await.data;
        let passwords = world.get::<Secret>("internal-whole-system-passwords").await.data;

        comes_back::<Service>(world, "valkey-whole").await;
        comes_back::<Service>(world, "valkey-whole-client").await;
        comes_back::<PodDisruptionBudget>(world, "valkey-whole").await;
        let secret = comes_back::<Secret>(world, "internal-whole-acl").await;
        assert!(secret.data == users, "the users are the same");
        let secret = comes_back::<Secret>(world, "internal-whole-system-passwords").await;
        assert!(secret.data == passwords, "the passwords are the same: every server knows them");
        comes_back::<ConfigMap>(world, "valkey-whole-0-0").await;
        comes_back::<Service>(world, "valkey-whole-1-0").await;

        world.wait_cluster_ready("whole").await;
        assert_eq!(processes(world, "whole").await, before, "nothing was restarted");
        world.wait_whole("whole", SOON).await;
    })
    .await;
}

#[tokio::test]
async fn changed_objects_are_put_back() {
    world::run("cluster-put-back", async |world| {
        world.ready_cluster("firm", json!({"shards": 1, "replicas": 1})).await;
        let other = json!({"spec": {"selector": {"valkey.io/cluster": "other"}}});
        world.patch::<Service>("valkey-firm-client", other).await;
        world.patch::<PodDisruptionBudget>("valkey-firm", json!({"spec": {"minAvailable": 0}})).await;
        let users = world.get::<Secret>("internal-firm-acl").await.data;
        let open = json!({"stringData": {"users.acl": "user intruder on nopass ~* &* +@all\n"}});
        world.patch::<Secret>("internal-firm-acl", open).await;
        wait::until("all of them are put back", SOON, async || {
            let service = world.get::<Service>("valkey-firm-client").await.spec.unwrap_or_default();
            let selector = service.selector.unwrap_or_default();
            let budget = world.get::<PodDisruptionBudget>("valkey-firm").await.spec.unwrap_or_default();
            let secret = world.get::<Secret>("internal-firm-acl").await.data;
            let same = selector.get("valkey.io/cluster").is_some_and(|cluster| cluster == "firm")
                && budget.min_available == Some(IntOrString::Int(1))
                && secret == users;
            if same { Ok(()) } else { Err((selector, budget.min_available, secret == users)) }
        })
        .await;
        // A user that somebody made on a server by hand goes too.
        let server = world.cluster_server("firm", "firm-0-0").await;
        let connection = server.open().await.expect("should answer");
        connection
            .raw(&["ACL", "SETUSER", "intruder", "on", "nopass", "+@all", "~*"])
            .await
            .expect("should be set");
        wait::until("the intruder is gone", Duration::from_mins(1), async || {
            let listed = connection.acl_list().await.map_err(|error| error.to_string())?;
            if listed.get("intruder").is_none() { Ok(()) } else { Err("still there".to_owned()) }
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_workload_comes_back_as_a_copy() {
    world::run("cluster-workload", async |world| {
        world.ready_cluster("heals", json!({"shards": 2, "replicas": 1})).await;
        let server = world.cluster_server("heals", "heals-0-1").await;
        comes_back::<StatefulSet>(world, "valkey-heals-0-1").await;
        wait::until("its pod is another one", SOON, async || {
            match world.find::<Pod>("valkey-heals-0-1-0").await {
                Some(pod) if uid(&pod) != uid(&server.pod) => Ok(()),
                other => Err(other.is_some()),
            }
        })
        .await;
        world.wait_cluster_ready("heals").await;
        world.wait_whole("heals", SOON).await;
        let shard = world.cluster_status("heals").await.shard_details.remove(0);
        assert_eq!(shard.primary.as_deref(), Some("heals-0-0"), "{shard:?}");
    })
    .await;
}

#[tokio::test]
async fn a_write_that_is_refused_keeps_nobody_from_healing() {
    world::run("cluster-refused", async |world| {
        world.ready_cluster("held", json!({"shards": 1, "replicas": 1})).await;
        let none = json!({"hard": {"count/poddisruptionbudgets.policy": "0"}});
        world.create::<ResourceQuota>(json!({"metadata": {"name": "none"}, "spec": none})).await;
        wait::until("the quota holds", SOON, async || {
            let quota = world.get::<ResourceQuota>("none").await;
            quota.status.and_then(|status| status.hard).map(drop).ok_or("not yet")
        })
        .await;
        world.delete::<PodDisruptionBudget>("valkey-held").await;
        let refused = async || world.wait_cluster_condition("held", "Ready", "False", "ApplyRefused").await;
        let words = refused().await;
        assert!(words.contains("exceeded quota"), "{words}");

        // It comes back as somebody whom nobody knows, and whom only the operator can take in.
        comes_back::<Pod>(world, "valkey-held-0-1-0").await;
        world.wait_whole("held", Duration::from_mins(1)).await;
        refused().await;
        world.delete::<ResourceQuota>("none").await;
        world.wait_cluster_ready("held").await;
    })
    .await;
}
