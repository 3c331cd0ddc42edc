//! Faults that befall a single node on the local cluster, each applied and mended, under the witness.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::Fault;
use super::in_place::MACHINE;
use crate::objects::uid;
use crate::witness::single::{Verdict, Witness};
use crate::{World, wait};

/// How long a fault that does not end by itself stays.
const STAYS: Duration = Duration::from_secs(5);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFault {
    /// The server's process is killed.
    ServerKilled,
    /// The server's container stands still for a while.
    ServerFrozen,
    /// The pod is deleted.
    PodDeleted,
    /// The machine loses its power and comes back.
    MachineLost,
    /// The volume has no free block for a while.
    DiskFull,
}

impl NodeFault {
    /// Every fault, with how often the campaign repeats it.
    pub const CAMPAIGN: [(Self, u32); 5] = [
        (Self::ServerKilled, 10),
        (Self::ServerFrozen, 5),
        (Self::PodDeleted, 5),
        (Self::MachineLost, 3),
        (Self::DiskFull, 3),
    ];

    const fn cause(self) -> Fault {
        match self {
            Self::ServerKilled => Fault::ServerKilled,
            Self::ServerFrozen => Fault::ServerFrozen,
            Self::PodDeleted => Fault::PodDeleted,
            Self::MachineLost => Fault::MachineLost,
            Self::DiskFull => Fault::DiskFull,
        }
    }
}

/// Make the node that faults befall: every acknowledged write is on its disk.
pub async fn victim(world: &World, name: &str) {
    let config = json!({"appendonly": "yes", "appendfsync": "always"});
    world.ready_node(name, json!({"persistence": {"size": "64Mi"}, "config": config})).await;
}

/// Let a fault befall a node, mend it, and wait until the node is ready again. Returns what the witness saw and how
/// long the node took from the mending to being ready.
pub async fn befall(world: &World, name: &str, fault: NodeFault) -> (Verdict, Duration) {
    let witness = Witness::start(world.server(name).await, &format!("{fault:?}")).await;
    apply_and_mend(world, name, fault).await;
    let mended = Instant::now();
    world.wait_ready(name).await;
    let took = mended.elapsed();
    let target = world.server(name).await;
    world.connect(name).await;
    (witness.verdict(&target).await, took)
}

async fn apply_and_mend(world: &World, name: &str, fault: NodeFault) {
    let pod = world.pod_of(name).await;
    let in_place = fault.cause().begin(world, std::slice::from_ref(&pod)).await;
    if fault.cause().stays() {
        tokio::time::sleep(STAYS).await;
    }
    in_place.mend(world).await;
    match fault {
        NodeFault::ServerKilled => restarted(world, &pod).await,
        NodeFault::PodDeleted => replaced(world, &pod).await,
        NodeFault::MachineLost => restarted_or_not_ready(world, name).await,
        NodeFault::ServerFrozen | NodeFault::DiskFull => {}
    }
}

async fn replaced(world: &World, before: &Pod) {
    let name = before.name_any();
    wait::until("another pod is there", MACHINE, async || match world.find::<Pod>(&name).await {
        Some(now) if uid(&now) != uid(before) => Ok(()),
        other => Err(other.is_some()),
    })
    .await;
}

async fn restarted(world: &World, before: &Pod) {
    let count = |pod: &Pod| {
        let status = pod.status.as_ref();
        status
            .and_then(|status| status.container_statuses.as_ref()?.first().map(|one| one.restart_count))
            .unwrap_or(0)
    };
    let name = before.name_any();
    wait::until("the container is started again", MACHINE, async || {
        let now = count(&world.get::<Pod>(&name).await);
        if now > count(before) { Ok(()) } else { Err(now) }
    })
    .await;
}

/// A machine that comes back starts its pods anew: the node must have been seen as not ready.
async fn restarted_or_not_ready(world: &World, name: &str) {
    wait::until("the loss is seen", MACHINE, async || {
        let status = world.status(name).await;
        if status.ready { Err("ready") } else { Ok(()) }
    })
    .await;
}
