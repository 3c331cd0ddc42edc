//! A primary takes writes at the word of others: cut off, it stops before another one begins; there, if only late, it is left alone.

use std::time::Duration;

use e2e::clusters::WHOLE_WITHIN;
use e2e::faults::Fault;
use e2e::lives::{away, loses_a_machine};
use e2e::{World, operator, rivals, wait, world};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use serde_json::json;
use valkey::client::FailoverMode;

async fn cluster(world: &World, shards: u32) {
    world.witnessed_cluster("hit", json!({"shards": shards, "replicas": 1})).await;
    world.wait_led("hit").await;
}

async fn led_by(world: &World) -> Vec<Option<String>> {
    world.cluster_status("hit").await.shard_details.into_iter().map(|shard| shard.primary).collect()
}

#[tokio::test]
async fn a_primary_that_is_cut_off_stops_before_another_one_leads() {
    world::run("cut-off", async |world| {
        cluster(world, 3).await;
        let seen = Box::pin(rivals::cut_off(world, "hit", 1)).await;
        eprintln!("cut off: {seen:?}");
        assert!(seen.last_before < seen.first_after, "{seen:?}");
        assert!(seen.first_after <= away::ONE_MACHINE, "{seen:?}");
        world.wait_cluster_ready("hit").await;
        world.wait_whole("hit", WHOLE_WITHIN).await;
    })
    .await;
}

/// The operator has a say about a shard that is alone. Where it is lost with the primary, another one has to lead first, which takes its
/// own time.
async fn primary_is_not_beside_the_operator(world: &World) {
    let leader = operator::leader(&world.client).await.expect("somebody should lead");
    let operators = Api::<Pod>::namespaced(world.client.clone(), operator::NAMESPACE);
    let leader = operators.get(&leader).await.expect("the leader should be there");
    let machine = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let servers = world.cluster_servers("hit").await;
    let leads = led_by(world).await;
    let is_primary = |node: &str| leads == [Some(node.to_owned())];
    let beside = servers.iter().find(|server| is_primary(&server.node)).expect("somebody should lead");
    if machine(&beside.pod) != machine(&leader) {
        return;
    }
    let other = servers.iter().find(|server| !is_primary(&server.node)).expect("it should have a copy");
    let connection = other.open().await.expect("should answer");
    connection.cluster_failover(FailoverMode::Planned).await.expect("should take over");
    wait::until("the one on the other machine leads", Duration::from_secs(30), async || {
        let leads = led_by(world).await;
        if leads == [Some(other.node.clone())] { Ok(()) } else { Err(leads) }
    })
    .await;
    world.wait_cluster_ready("hit").await;
}

/// Nobody is left to agree but the operator.
#[tokio::test]
async fn a_shard_that_is_alone_outlives_its_machine() {
    world::run("lone-machine", async |world| {
        cluster(world, 1).await;
        primary_is_not_beside_the_operator(world).await;
        let (verdict, _) = loses_a_machine(world, "hit").await;
        eprintln!("lone shard, lost machine:\n{verdict}");
        verdict.assert_nothing_lost();
        verdict.assert_away_at_most(away::ONE_MACHINE);
    })
    .await;
}

/// Nobody is replaced, and nobody stops: neither for a server that stands still for a moment, nor for lines that lose packets.
#[tokio::test]
async fn a_primary_that_is_only_slow_is_left_alone() {
    world::run("slow", async |world| {
        cluster(world, 3).await;
        let before = led_by(world).await;
        let primary = world.primaries("hit").await.remove(1);
        let pods = [primary.pod.clone()];
        let slow = Box::pin(async {
            for stands_still in [500, 1000, 2000] {
                let for_a_moment = tokio::time::sleep(Duration::from_millis(stands_still));
                Fault::ServerFrozen.during(world, &pods, for_a_moment).await;
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            Fault::PeersFar.during(world, &pods, tokio::time::sleep(Duration::from_secs(15))).await;
        });
        let (verdict, _) = world.under_witness("hit", slow).await;
        eprintln!("slow:\n{verdict}");
        verdict.assert_nothing_lost();
        assert_eq!(led_by(world).await, before, "nobody should have been replaced");
    })
    .await;
}
