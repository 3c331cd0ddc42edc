//! How long a cluster takes from `apply` to Ready, beside the start of its own pods; and what many clusters cost.

use std::time::{Duration, Instant};

use api::ValkeyCluster;
use api::cluster::ClusterPhase;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::faults::SERVER;
use crate::{World, wait};

const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_mins(5);

/// How a cluster started.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// From `apply` to Ready.
    pub ready: Duration,
    /// From `apply` until the last container of a server ran: what Kubernetes takes, to the second.
    pub pods: Duration,
}

/// Makes a cluster, measures, and removes it.
pub async fn start(world: &World, name: &str, shards: u32, replicas: u32) -> Start {
    let (begun, moment) = (Instant::now(), Timestamp::now());
    world.cluster(name, json!({"shards": shards, "replicas": replicas})).await;
    while world.cluster_status(name).await.phase != Some(ClusterPhase::Ready) {
        assert!(begun.elapsed() < PATIENCE, "{name} does not become ready");
        tokio::time::sleep(LOOK).await;
    }
    let ready = begun.elapsed();
    let pods: Vec<Pod> = world.cluster_pods(name).await.into_iter().flatten().collect();
    let last = pods.iter().filter_map(ran_since).max().unwrap_or(moment);
    let pods = Duration::try_from(last - moment).unwrap_or_default();
    remove(world, name).await;
    Start { ready, pods }
}

/// When the container of the server was started.
pub fn ran_since(pod: &Pod) -> Option<Timestamp> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let server = containers.iter().find(|container| container.name == SERVER)?;
    Some(server.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0)
}

/// The next one starts on a quiet machine.
pub async fn remove(world: &World, name: &str) {
    world.delete::<ValkeyCluster>(name).await;
    wait::until("its pods are gone", Duration::from_mins(2), async || {
        let left = world.cluster_pods(name).await.len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
}
