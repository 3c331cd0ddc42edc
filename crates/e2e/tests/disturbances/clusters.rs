//! Faults of a cluster's servers, once each, under the witness.

use e2e::clusters::{Server, WHOLE_WITHIN};
use e2e::faults::Fault;
use e2e::lives::{away, befalls, loses_a_machine, loses_all_pods, pods, started_again};
use e2e::objects::uid;
use e2e::witness::Verdict;
use e2e::{World, world};
use serde_json::json;

/// Three shards with a copy each, without any volume: what a server forgets, only its copy knows.
async fn volatile(world: &World) {
    world.witnessed_cluster("hit", json!({"shards": 3, "replicas": 1})).await;
}

/// Lets a fault befall the primary of a shard, waits until the cluster is whole, and tells what the witness saw.
async fn befalls_a_primary(world: &World, fault: Fault) -> (Server, Verdict) {
    volatile(world).await;
    let primary = world.primaries("hit").await.remove(1);
    let (verdict, _) = befalls(world, "hit", fault, std::slice::from_ref(&primary)).await;
    (primary, verdict)
}

async fn identity(server: &Server) -> String {
    server.open().await.expect("should answer").cluster_myid().await.expect("should answer")
}

#[tokio::test]
async fn the_data_of_a_killed_primary_survives_on_its_copy() {
    world::run("killed-primary", async |world| {
        let (before, verdict) = befalls_a_primary(world, Fault::ServerKilled).await;
        verdict.assert_nothing_lost();
        verdict.assert_away_at_most(away::ONE_PRIMARY);
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
        world.wait_whole("hit", WHOLE_WITHIN).await;
        assert_ne!(identity(&copy).await, before);
    })
    .await;
}

#[tokio::test]
async fn deleting_the_pod_of_a_primary_loses_nothing() {
    world::run("deleted-primary", async |world| {
        let (before, verdict) = befalls_a_primary(world, Fault::PodDeleted).await;
        verdict.assert_nothing_lost();
        verdict.assert_away_at_most(away::ONE_PRIMARY);
        let now = world.cluster_server("hit", &before.node).await;
        assert_ne!(uid(&now.pod), uid(&before.pod));
    })
    .await;
}

/// Those that are left cannot vote anybody in.
#[tokio::test]
async fn most_primaries_killed_at_once_lose_nothing() {
    world::run("killed-majority", async |world| {
        volatile(world).await;
        let victims = &world.primaries("hit").await[..2];
        let (verdict, _) = befalls(world, "hit", Fault::ServerKilled, victims).await;
        verdict.assert_nothing_lost();
        verdict.assert_away_at_most(away::MOST_PRIMARIES);
    })
    .await;
}

/// Those that are left cannot vote anybody in, and the silent ones may wake up at any moment: nobody takes over from them
/// before they are ended. What hangs so that its machine still calls it ready, only a person can tell from a cut line.
#[tokio::test]
async fn nobody_takes_over_from_most_primaries_before_they_are_ended() {
    world::run("frozen-majority", async |world| {
        volatile(world).await;
        let victims = &world.primaries("hit").await[..2];
        let (verdict, took) = world
            .under_witness(
                "hit",
                Box::pin(async {
                    let in_place = Fault::ServerFrozen.begin(world, &pods(victims)).await;
                    let told = world.wait_cluster_condition("hit", "Ready", "False", "WaitingForUser").await;
                    assert!(told.contains("if the server hangs, delete the pod"), "{told}");
                    Fault::PodDeleted.begin(world, &pods(victims)).await.mend(world).await;
                    for victim in victims {
                        started_again(world, victim).await;
                    }
                    in_place.mend(world).await;
                }),
            )
            .await;
        eprintln!("most primaries frozen: whole again after {took:?}\n{verdict}");
        verdict.assert_nothing_lost();
    })
    .await;
}

/// What hangs so that its own probe finds it, the operator ends by itself, and only then lets others take over.
#[tokio::test]
async fn most_primaries_that_hang_are_ended_and_replaced() {
    world::run("hung-majority", async |world| {
        volatile(world).await;
        let victims = &world.primaries("hit").await[..2];
        let (verdict, _) = befalls(world, "hit", Fault::ServerHung, victims).await;
        verdict.assert_nothing_lost();
        verdict.assert_away_at_most(away::HUNG);
        for victim in victims {
            let now = world.cluster_server("hit", &victim.node).await;
            assert_ne!(uid(&now.pod), uid(&victim.pod), "the pod of {} should have been ended", victim.node);
        }
    })
    .await;
}

/// With data on volumes, everybody comes back with what they had, at other addresses.
#[tokio::test]
async fn all_pods_deleted_at_once_come_back_with_their_data() {
    world::run("all-deleted", async |world| {
        let spec = json!({"shards": 3, "replicas": 1, "persistence": {"size": "64Mi"}});
        world.witnessed_cluster("hit", spec).await;
        // Where Kubernetes alone takes too long to start servers, nothing was measured but the machine.
        for last_try in [false, false, true] {
            let (verdict, _, started) = loses_all_pods(world, "hit").await;
            verdict.assert_nothing_lost();
            let outage = verdict.report.longest_gap().length;
            eprintln!("no write for {outage:?}; Kubernetes took {started:?} to start the last server again");
            if outage <= away::ALL_PODS {
                break;
            }
            let void = started > away::STARTED && !last_try;
            assert!(void, "no write for {outage:?}, of it {started:?} until the last server ran");
        }
    })
    .await;
}

/// The others notice by themselves that a machine is gone; when it is back, its servers follow.
#[tokio::test]
async fn a_lost_machine_costs_no_shard() {
    world::run("lost-machine", async |world| {
        volatile(world).await;
        let (verdict, _) = loses_a_machine(world, "hit").await;
        verdict.assert_nothing_lost();
        verdict.assert_away_at_most(away::ONE_MACHINE);
    })
    .await;
}
