//! A primary is killed, and its agent has a replica take over before clients lose patience. The nodes themselves would wait for ten
//! seconds, and among fewer than three of them for ever.

use std::time::{Duration, Instant};

use e2e::clusters::WHOLE_WITHIN;
use e2e::failovers::{LONGEST, MEDIAN, Shape, stalls_of};
use e2e::faults::Fault;
use e2e::lives::{pods, started_again};
use e2e::witness::{Settings, Witness};
use e2e::{operator, world};
use serde_json::json;

async fn is_hardly_noticed(shape: Shape) {
    world::run("failover", async |world| {
        world.witnessed_cluster("hit", shape.spec(true)).await;
        let mut stalls = stalls_of(world, "hit", 2).await;
        stalls.sort_unstable();
        eprintln!("{shape}: no write for {stalls:?}");
        assert!(stalls.iter().all(|stall| *stall <= LONGEST), "{stalls:?}");
    })
    .await;
}

#[tokio::test]
async fn among_three_shards_a_replica_is_elected() {
    is_hardly_noticed(Shape { shards: 3, kept: false }).await;
}

#[tokio::test]
async fn a_shard_that_is_alone_has_a_successor_too() {
    is_hardly_noticed(Shape { shards: 1, kept: true }).await;
}

#[tokio::test]
async fn one_of_two_shards_has_a_successor_too() {
    is_hardly_noticed(Shape { shards: 2, kept: true }).await;
}

/// Servers know each other by address, and all of them have another one afterwards.
#[tokio::test]
async fn all_pods_that_are_replaced_without_an_operator_find_each_other() {
    world::run("alone", async |world| {
        let spec = json!({"shards": 3, "replicas": 1, "persistence": {"size": "64Mi"}});
        world.witnessed_cluster("alone", spec).await;
        world.wait_cluster_condition("alone", "SidecarsConnected", "True", "SidecarsHeard").await;
        let settings = Settings::new(world.witness_access("alone").await);
        let witness = Witness::start(settings).await.expect("should start");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let report = witness.stop().await;
        let alone = Box::pin(async {
            let victims = world.cluster_servers("alone").await;
            let before: Vec<_> = victims.iter().map(|server| server.address.clone()).collect();
            let begun = Instant::now();
            Fault::PodDeleted.begin(world, &pods(&victims)).await.mend(world).await;
            for victim in &victims {
                started_again(world, victim).await;
            }
            let started = begun.elapsed();
            let after = world.cluster_servers("alone").await;
            assert!(
                after.iter().all(|server| !before.contains(&server.address)),
                "a pod has the address it had"
            );
            world.wait_whole("alone", WHOLE_WITHIN).await;
            eprintln!(
                "all servers ran again after {started:?}, and were one cluster after {:?}",
                begun.elapsed()
            );
        });
        operator::away(&world.client, alone).await;
        let verdict =
            report.verify(&world.witness_access("alone").await).await.expect("should find its keys");
        verdict.assert_nothing_lost();
    })
    .await;
}

/// What it would be without them: a test that could not tell the difference would show nothing.
#[tokio::test]
async fn agents_that_are_switched_off_leave_it_to_the_cluster() {
    world::run("failover-off", async |world| {
        let shape = Shape { shards: 3, kept: true };
        world.witnessed_cluster("hit", shape.spec(false)).await;
        let stalls = stalls_of(world, "hit", 1).await;
        eprintln!("{shape}, agents switched off: no write for {stalls:?}");
        assert!(stalls[0] > MEDIAN + Duration::from_millis(500), "{stalls:?}: the switch does nothing");
    })
    .await;
}
