//! A fault that lasts until it is mended.

use std::time::Duration;

use devcluster::faults::ActiveFault;
use jiff::Timestamp;

use crate::{World, operator};

/// How long machines may take to come back.
pub(super) const MACHINE: Duration = Duration::from_mins(2);
/// How many operators run when one is back.
const OPERATORS: i32 = 2;

/// What a fault left behind. What the kernel does is undone when this is dropped; machines and the operator come back
/// only by [`InPlace::mend`].
#[must_use = "a fault is mended when it is dropped"]
pub enum InPlace {
    /// It is over: Kubernetes is at work already.
    Nothing,
    /// Frozen, partitioned, full.
    Machinery(Vec<ActiveFault>),
    /// Machines without power.
    MachinesOff(Vec<String>),
    /// No operator runs.
    OperatorAway,
}

impl InPlace {
    pub(super) async fn switch_off(world: &World, machines: &[String]) -> Self {
        let nodes: Vec<_> =
            machines.iter().map(|name| world.local().node(name).expect("should know the machine")).collect();
        for off in futures::future::join_all(nodes.iter().map(devcluster::Node::power_off)).await {
            off.expect("should switch off");
        }
        Self::MachinesOff(machines.to_vec())
    }

    /// Undoes it and waits until that is done: machines are ready, operators run.
    pub async fn mend(self, world: &World) {
        match self {
            Self::Nothing => {}
            Self::Machinery(faults) => {
                for fault in faults {
                    fault.heal().expect("should be mended");
                }
            }
            Self::MachinesOff(machines) => {
                let since = Timestamp::now();
                let mut nodes = Vec::new();
                for name in &machines {
                    let node = world.local().node(name).expect("should know the machine");
                    node.power_on().await.expect("should switch on");
                    nodes.push(node);
                }
                world.local().wait_for_nodes(&nodes, since, MACHINE).await.expect("should come back");
            }
            Self::OperatorAway => operator::scale(&world.client, OPERATORS).await,
        }
    }
}
