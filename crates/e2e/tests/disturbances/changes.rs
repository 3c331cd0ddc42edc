//! Changes on purpose, under the witness: nothing is lost, no operation fails, and hardly anybody notices.

use std::time::Duration;

use e2e::changes::{Change, NOTICED, ROLLED_WITHIN, unnoticed};
use e2e::faults::Fault;
use e2e::{World, world};
use serde_json::json;
use valkey::client::FailoverMode;

#[tokio::test]
async fn restarts_and_directives_and_users_go_unnoticed() {
    world::run("changes-roll", async |world| {
        world.witnessed_cluster("calm", json!({"shards": 3, "replicas": 1})).await;
        unnoticed(world, "calm", Change::LiveDirective).await;
        unnoticed(world, "calm", Change::Users).await;
        let took = unnoticed(world, "calm", Change::Restart).await;
        assert!(took <= ROLLED_WITHIN, "a roll took {took:?}");
        let took = unnoticed(world, "calm", Change::Directive).await;
        assert!(took <= ROLLED_WITHIN, "a roll took {took:?}");
    })
    .await;
}

#[tokio::test]
async fn a_newer_release_goes_unnoticed() {
    world::run("changes-image", async |world| {
        let spec = json!({"shards": 3, "replicas": 1, "image": "valkey/valkey:8.1"});
        world.witnessed_cluster("calm", spec).await;
        unnoticed(world, "calm", Change::Image).await;
        let version = world.cluster_status("calm").await.version;
        assert!(version.as_deref().is_some_and(|version| version.starts_with("9.1")), "{version:?}");
    })
    .await;
}

#[tokio::test]
async fn another_number_of_shards_goes_unnoticed() {
    world::run("changes-scale", async |world| {
        world.witnessed_cluster("calm", json!({"shards": 3, "replicas": 1})).await;
        unnoticed(world, "calm", Change::ScaleOut).await;
        unnoticed(world, "calm", Change::ScaleIn).await;
    })
    .await;
}

/// Lets the second node of every shard lead.
async fn second_nodes_lead(world: &World) {
    for shard in 0..3 {
        let second = world.cluster_server("calm", &api::names::cluster_node("calm", shard, 1)).await;
        let connection = second.open().await.expect("should answer");
        connection.cluster_failover(FailoverMode::Planned).await.expect("should take over");
    }
    e2e::wait::until("the second node of every shard leads", Duration::from_secs(30), async || {
        let shards = world.cluster_status("calm").await.shard_details;
        let second = |shard: &api::cluster::ShardStatus| {
            let number = u32::try_from(shard.index).expect("should be a number");
            shard.primary.as_deref() == Some(&api::names::cluster_node("calm", number, 1))
        };
        if shards.len() == 3 && shards.iter().all(second) { Ok(()) } else { Err(shards) }
    })
    .await;
    world.wait_cluster_ready("calm").await;
}

#[tokio::test]
async fn another_number_of_replicas_goes_unnoticed() {
    world::run("changes-replicas", async |world| {
        world.witnessed_cluster("calm", json!({"shards": 3, "replicas": 1})).await;
        unnoticed(world, "calm", Change::MoreReplicas).await;
        unnoticed(world, "calm", Change::OneReplica).await;
        second_nodes_lead(world).await;
        unnoticed(world, "calm", Change::NoReplicas).await;
        unnoticed(world, "calm", Change::OneReplica).await;
    })
    .await;
}

/// While a shard heals, nothing is taken away from it.
#[tokio::test]
async fn replicas_are_not_removed_from_a_shard_that_just_lost_a_pod() {
    world::run("changes-hurried", async |world| {
        world.witnessed_cluster("calm", json!({"shards": 3, "replicas": 1})).await;
        second_nodes_lead(world).await;
        let primary = world.cluster_server("calm", &api::names::cluster_node("calm", 1, 1)).await;
        let work = async {
            let in_place = Fault::PodDeleted.begin(world, std::slice::from_ref(&primary.pod)).await;
            in_place.mend(world).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            Change::NoReplicas.make(world, "calm").await;
        };
        let (verdict, took) = world.under_witness("calm", Box::pin(work)).await;
        eprintln!("no replicas soon after a lost pod: done after {took:?}\n{verdict}");
        verdict.assert_nothing_lost();
        assert!(verdict.report.noticed() <= NOTICED * 4, "{verdict}");
    })
    .await;
}
