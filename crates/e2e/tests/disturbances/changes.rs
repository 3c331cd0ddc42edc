//! Changes on purpose, under the witness: nothing is lost, no operation fails, and hardly anybody notices.

use e2e::changes::{
    Change, NOTICED_IN_A_HURRY, ROLLED_WITHIN, SCALED_WITHIN, no_replicas_in_a_hurry, second_nodes_lead,
    unnoticed,
};
use e2e::world;
use serde_json::json;

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

/// A new agent gives nobody its word for a while, and of two replicas one at least has to.
#[tokio::test]
async fn a_restart_of_two_replicas_goes_unnoticed() {
    world::run("changes-two", async |world| {
        world.witnessed_cluster("calm", json!({"shards": 1, "replicas": 2})).await;
        unnoticed(world, "calm", Change::Restart).await;
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
        for (change, within) in [Change::ScaleOut, Change::ScaleIn].into_iter().zip(SCALED_WITHIN) {
            let took = unnoticed(world, "calm", change).await;
            assert!(took <= within, "{change} took {took:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn another_number_of_replicas_goes_unnoticed() {
    world::run("changes-replicas", async |world| {
        world.witnessed_cluster("calm", json!({"shards": 3, "replicas": 1})).await;
        unnoticed(world, "calm", Change::MoreReplicas).await;
        unnoticed(world, "calm", Change::OneReplica).await;
        second_nodes_lead(world, "calm").await;
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
        second_nodes_lead(world, "calm").await;
        let (verdict, _) = no_replicas_in_a_hurry(world, "calm").await;
        verdict.assert_nothing_lost();
        assert!(verdict.report.noticed() <= NOTICED_IN_A_HURRY, "{verdict}");
    })
    .await;
}
