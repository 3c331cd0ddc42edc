//! Faults that can befall a node on the local cluster, each applied and mended, under the witness.

use std::time::{Duration, Instant};

use devcluster::faults::{ContainerGroup, Fault, Fill, Freeze};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::json;

use crate::objects::uid;
use crate::witness::{Verdict, Witness};
use crate::{World, wait};

/// How long a fault that does not end by itself stays.
const STAYS: Duration = Duration::from_secs(5);
/// How long a machine may take to come back.
const MACHINE: Duration = Duration::from_mins(2);

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
    let faults = world.local().faults().expect("should be able to break things");
    match fault {
        NodeFault::ServerKilled => {
            let group = ContainerGroup::of(&pod, "valkey").expect("should find the container");
            group.main_process().expect("should run").kill().expect("should be killed");
            restarted(world, &pod).await;
        }
        NodeFault::ServerFrozen => {
            let group = ContainerGroup::of(&pod, "valkey").expect("should find the container");
            let frozen = faults.begin(Fault::Freeze(Freeze { group: group.folder })).expect("should freeze");
            tokio::time::sleep(STAYS).await;
            frozen.heal().expect("should thaw");
        }
        NodeFault::PodDeleted => {
            let name = pod.metadata.name.clone().expect("should have a name");
            world.delete::<Pod>(&name).await;
            wait::until("another pod is there", MACHINE, async || match world.find::<Pod>(&name).await {
                Some(now) if uid(&now) != uid(&pod) => Ok(()),
                other => Err(other.is_some()),
            })
            .await;
        }
        NodeFault::MachineLost => {
            let machine = pod.spec.and_then(|spec| spec.node_name).expect("should be somewhere");
            let node = world.local().node(&machine).expect("should know the machine");
            node.power_off().await.expect("should switch off");
            tokio::time::sleep(STAYS).await;
            let since = Timestamp::now();
            node.power_on().await.expect("should switch on");
            world.local().wait_for_nodes(&[node], since, MACHINE).await.expect("should come back");
            restarted_or_not_ready(world, name).await;
        }
        NodeFault::DiskFull => {
            let claim = world.get::<PersistentVolumeClaim>(&api::names::data_claim(name)).await;
            let volume = claim.spec.and_then(|spec| spec.volume_name).expect("should be bound");
            let mount = world.local().disks().expect("should know the disks").mount_point(&volume);
            let full = faults.begin(Fault::Fill(Fill { mount })).expect("should fill");
            tokio::time::sleep(STAYS).await;
            full.heal().expect("should free");
        }
    }
}

async fn restarted(world: &World, before: &Pod) {
    let count = |pod: &Pod| {
        let status = pod.status.as_ref();
        status
            .and_then(|status| status.container_statuses.as_ref()?.first().map(|one| one.restart_count))
            .unwrap_or(0)
    };
    let name = before.metadata.name.clone().expect("should have a name");
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
