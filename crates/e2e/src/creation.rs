//! The life of one node's creation under an operator that dies after its n-th write.

use std::time::{Duration, Instant};

use api::ValkeyNode;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::crash::{End, Operator};
use crate::nodes::PATIENCE;
use crate::{World, wait};

/// Create a node while the operator dies after `die_after` writes, start another one, and wait until the node is ready
/// and as it should be. Returns how the first operator ended. The installed operator must be scaled to zero.
pub async fn with_a_crash(world: &World, name: &str, spec: Value, die_after: usize) -> End {
    let first = Operator::start(world, Some(die_after));
    world.node(name, spec).await;
    let end = crashed_or_done(world, &first, name).await;
    first.stop().await;
    let second = Operator::start(world, None);
    world.wait_ready(name).await;
    check(world, name).await;
    settles(world, &second, name).await;
    second.stop().await;
    world.delete::<ValkeyNode>(name).await;
    wait::until("its pod is gone", PATIENCE, async || {
        let pods =
            world.api::<Pod>().list(&kube::api::ListParams::default()).await.expect("should list").items;
        if pods.is_empty() { Ok(()) } else { Err(pods.len()) }
    })
    .await;
    end
}

/// `Stopped` only if everything was done before the fatal write came.
async fn crashed_or_done(world: &World, operator: &Operator, name: &str) -> End {
    let mut quiet = (operator.writes(), Instant::now());
    wait::until("the operator dies or has nothing left to write", PATIENCE, async || {
        if operator.is_dead() {
            return Ok(End::Crashed);
        }
        let writes = operator.writes();
        if writes != quiet.0 {
            quiet = (writes, Instant::now());
        }
        let done = world.status(name).await.ready && quiet.1.elapsed() > Duration::from_secs(12);
        if done { Ok(End::Stopped) } else { Err(writes) }
    })
    .await
}

/// Exactly one pod, and a spotless status.
async fn check(world: &World, name: &str) {
    let pods = world.api::<Pod>().list(&kube::api::ListParams::default()).await.expect("should list").items;
    assert_eq!(pods.len(), 1, "one pod for {name}");
    world.wait_condition(name, "ResourcesReady", "True", "AllHealthy").await;
    world.wait_condition(name, "Progressing", "False", "Stable").await;
}

/// Once everything is there the operator does not write any more.
async fn settles(world: &World, operator: &Operator, name: &str) {
    wait::until("the operator stops writing", Duration::from_secs(30), async || {
        let before = operator.writes();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let status = world.status(name).await;
        if operator.writes() == before && status.ready { Ok(()) } else { Err(operator.writes() - before) }
    })
    .await;
}
