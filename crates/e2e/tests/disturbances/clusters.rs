//! Faults of a cluster's servers, once each, under the witness.

use std::time::{Duration, Instant};

use e2e::access::Access;
use e2e::clusters::Server;
use e2e::faults::Fault;
use e2e::objects::uid;
use e2e::witness::{Settings, Verdict, Witness};
use e2e::{World, wait, world};
use k8s_openapi::api::core::v1::{Pod, Secret};
use secrecy::SecretString;
use serde_json::json;

/// How long a cluster may take to be whole again.
const HEALED_WITHIN: Duration = Duration::from_mins(2);

/// Three shards with a copy each, without any volume: what a server forgets, only its copy knows.
async fn volatile(world: &World) {
    let secret = json!({"metadata": {"name": "hit-users"}, "stringData": {"app": "witness-secret-1"}});
    world.create::<Secret>(secret).await;
    let app = json!({"name": "app", "permissions": "+@all ~*"});
    world.ready_cluster("hit", json!({"shards": 3, "replicas": 1, "users": [app]})).await;
}

async fn access(world: &World) -> Access {
    let servers = world.wanted("hit").await.shards.into_iter().flatten();
    Access::open(servers).with_credentials(Some("app"), SecretString::from("witness-secret-1"))
}

/// Lets a fault befall the primary of a shard, waits until the cluster is whole, and tells what the witness saw.
async fn befalls_a_primary(world: &World, fault: Fault) -> (Server, Verdict) {
    volatile(world).await;
    let shard = world.cluster_status("hit").await.shard_details.remove(1);
    let primary = world.cluster_server("hit", &shard.primary.expect("should have a primary")).await;
    let witness = Witness::start(Settings::new(access(world).await)).await.expect("should start");
    let begun = Instant::now();
    let in_place = fault.begin(world, std::slice::from_ref(&primary.pod)).await;
    in_place.mend(world).await;
    started_again(world, &primary).await;
    world.wait_cluster_ready("hit").await;
    world.wait_whole("hit", HEALED_WITHIN).await;
    eprintln!("{fault}: whole again after {:?}", begun.elapsed());
    serves_again(&witness).await;
    let verdict = witness.stop().await.verify(&access(world).await).await.expect("should find its keys");
    eprintln!("{verdict}");
    (primary, verdict)
}

/// Every shard takes writes again, so that a stall is measured to its end.
async fn serves_again(witness: &Witness) {
    wait::until("every shard takes writes", Duration::from_secs(20), async || {
        let silence = witness.progress().silence;
        if silence < Duration::from_millis(500) { Ok(()) } else { Err(silence) }
    })
    .await;
}

/// Another process serves the node: its pod is another one, or its container was started again.
async fn started_again(world: &World, before: &Server) {
    let restarts = |pod: &Pod| {
        let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        containers.into_iter().flatten().map(|one| one.restart_count).sum::<i32>()
    };
    let name = api::names::pod(&before.node);
    wait::until(&format!("{name} is started again"), HEALED_WITHIN, async || {
        let Some(now) = world.find::<Pod>(&name).await else { return Err("no pod".to_owned()) };
        let another = uid(&now) != uid(&before.pod) || restarts(&now) > restarts(&before.pod);
        if another { Ok(()) } else { Err("the same".to_owned()) }
    })
    .await;
}

async fn identity(server: &Server) -> String {
    server.open().await.expect("should answer").cluster_myid().await.expect("should answer")
}

#[tokio::test]
async fn the_data_of_a_killed_primary_survives_on_its_copy() {
    world::run("killed-primary", async |world| {
        let (before, verdict) = befalls_a_primary(world, Fault::ServerKilled).await;
        verdict.assert_nothing_lost();
        let now = world.cluster_server("hit", &before.node).await;
        let shard = world.cluster_status("hit").await.shard_details.remove(1);
        assert_eq!(uid(&now.pod), uid(&before.pod), "the pod stays, its container was started again");
        assert_ne!(shard.primary.as_ref(), Some(&now.node), "a server without its data is a copy: {shard:?}");
        let table = now.open().await.expect("should answer").cluster_nodes().await.expect("should answer");
        assert!(table.myself().is_some_and(valkey::cluster::Node::is_replica), "{table:?}");
    })
    .await;
}

/// A server that comes back without its data must not be taken for the one that had it.
#[tokio::test]
async fn a_server_without_its_data_is_a_stranger() {
    world::run("stranger", async |world| {
        volatile(world).await;
        let shard = world.cluster_status("hit").await.shard_details.remove(1);
        let copy = world.cluster_server("hit", &shard.replicas[0].node).await;
        let before = identity(&copy).await;
        let in_place = Fault::ServerKilled.begin(world, std::slice::from_ref(&copy.pod)).await;
        in_place.mend(world).await;
        started_again(world, &copy).await;
        world.wait_cluster_ready("hit").await;
        world.wait_whole("hit", HEALED_WITHIN).await;
        assert_ne!(identity(&copy).await, before);
    })
    .await;
}

#[tokio::test]
async fn deleting_the_pod_of_a_primary_loses_nothing() {
    world::run("deleted-primary", async |world| {
        let (before, verdict) = befalls_a_primary(world, Fault::PodDeleted).await;
        verdict.assert_nothing_lost();
        let now = world.cluster_server("hit", &before.node).await;
        assert_ne!(uid(&now.pod), uid(&before.pod));
    })
    .await;
}
