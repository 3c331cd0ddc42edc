//! Faults by name: put in place on pods of any kind, and mended. What is tested is *fault × invariants*.
//!
//! All but the deletions and the absence of the operator need the local cluster.

mod in_place;
pub mod node;

use std::panic::AssertUnwindSafe;

use devcluster::faults::{ContainerGroup, Fault as Machinery, Fill, Freeze, Partition, Side};
use devcluster::layout::HOST_ADDRESS;
use futures::FutureExt as _;
pub use in_place::InPlace;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Preconditions};
pub use node::{NodeFault, befall, victim};

use crate::objects::uid;
use crate::{World, operator};

/// The container the server runs in.
pub const SERVER: &str = "valkey";

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The servers' processes are killed (SIGKILL); the kubelet starts their containers again.
    ServerKilled,
    /// The servers' containers stand still: connections stay open, nobody answers.
    ServerFrozen,
    /// The servers' processes hang (SIGSTOP): connections stay open, nobody answers, and probes run beside them.
    ServerHung,
    /// The pods are deleted, all at once, and have their time to end.
    PodDeleted,
    /// The pods are deleted, all at once, without any time to end.
    PodForceDeleted,
    /// The machines under the pods lose their power. Mended, they start with the disks they had.
    MachineLost,
    /// The pods and everything else lose each other: other pods, other machines, clients, the API server. The kubelets
    /// under the pods keep them, so nobody restarts anything.
    Isolated,
    /// The pods and the other pods of the namespace lose each other; clients on this machine reach all of them.
    PeersLost,
    /// One of ten packets between the pods and the other pods of the namespace is lost, at each end of the line.
    PeersFar,
    /// The volumes of the pods have no free block.
    DiskFull,
    /// No operator runs.
    OperatorAway,
}

impl Fault {
    /// Whether there is something to mend; the others are over as soon as they happened.
    pub const fn stays(self) -> bool {
        !matches!(self, Self::ServerKilled | Self::PodDeleted | Self::PodForceDeleted)
    }

    /// Lets it befall the pods, all of them at once.
    pub async fn begin(self, world: &World, pods: &[Pod]) -> InPlace {
        match self {
            Self::ServerKilled => {
                // First all are found, so that they go down together.
                let groups: Vec<_> = pods.iter().map(server_group).collect();
                for group in &groups {
                    group.main_process().expect("should run").kill().expect("should be killed");
                }
                InPlace::Nothing
            }
            Self::ServerFrozen => machinery(
                world,
                pods.iter().map(|pod| Machinery::Freeze(Freeze { group: server_group(pod).folder })),
            ),
            Self::ServerHung => {
                let processes: Vec<_> = pods.iter().map(|pod| server_group(pod).main_process()).collect();
                machinery(world, processes.into_iter().map(|one| Machinery::Stop(one.expect("should run"))))
            }
            Self::PodDeleted => delete(world, pods, None).await,
            Self::PodForceDeleted => delete(world, pods, Some(0)).await,
            Self::MachineLost => InPlace::switch_off(world, &machines(pods)).await,
            Self::Isolated => {
                let peers = peers(world, pods).await;
                let cut =
                    |pod| partition(world, pod, [everything_elsewhere(world, pod), peers.clone()].concat());
                machinery(world, pods.iter().map(|pod| Machinery::Partition(cut(pod))))
            }
            Self::PeersLost => {
                let peers = peers(world, pods).await;
                let cut = |pod| Machinery::Partition(partition(world, pod, peers.clone()));
                machinery(world, pods.iter().map(cut))
            }
            Self::PeersFar => {
                let peers = peers(world, pods).await;
                let cut = |pod| partition(world, pod, peers.clone()).losing(10);
                machinery(world, pods.iter().map(|pod| Machinery::Partition(cut(pod))))
            }
            Self::DiskFull => {
                let mut fills = Vec::new();
                for pod in pods {
                    fills.push(Machinery::Fill(fill(world, pod).await));
                }
                machinery(world, fills)
            }
            Self::OperatorAway => {
                operator::scale(&world.client, 0).await;
                InPlace::OperatorAway
            }
        }
    }

    /// Does something while the fault is in place, and mends it whatever happens.
    pub async fn during<T>(self, world: &World, pods: &[Pod], work: impl Future<Output = T>) -> T {
        let in_place = self.begin(world, pods).await;
        let result = AssertUnwindSafe(work).catch_unwind().await;
        in_place.mend(world).await;
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn machinery(world: &World, faults: impl IntoIterator<Item = Machinery>) -> InPlace {
    let record = world.local().faults().expect("should be able to break things");
    let begin = |fault| record.begin(fault).expect("should break");
    InPlace::Machinery(faults.into_iter().map(begin).collect())
}

fn server_group(pod: &Pod) -> ContainerGroup {
    ContainerGroup::of(pod, SERVER).expect("should find the container")
}

/// The machines under the pods, each once.
pub fn machines(pods: &[Pod]) -> Vec<String> {
    let mut machines: Vec<String> = pods.iter().map(machine).collect();
    machines.sort_unstable();
    machines.dedup();
    machines
}

fn machine(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).expect("should be on a machine")
}

async fn delete(world: &World, pods: &[Pod], grace_period_seconds: Option<u32>) -> InPlace {
    let api = world.api::<Pod>();
    let deletions = pods.iter().map(|pod| {
        // These pods and not those that replace them meanwhile.
        let preconditions = Some(Preconditions { uid: Some(uid(pod)), resource_version: None });
        let params = DeleteParams { grace_period_seconds, preconditions, ..DeleteParams::default() };
        let (api, name) = (api.clone(), pod.name_any());
        async move { api.delete(&name, &params).await.map(drop) }
    });
    for deleted in futures::future::join_all(deletions).await {
        deleted.expect("should be deleted");
    }
    InPlace::Nothing
}

fn address(pod: &Pod) -> Option<String> {
    pod.status.as_ref()?.pod_ip.clone()
}

/// The addresses of all other pods of the namespace. Pods that share the fate keep each other.
async fn peers(world: &World, pods: &[Pod]) -> Vec<String> {
    let together: Vec<_> = pods.iter().map(uid).collect();
    let all = world.api::<Pod>().list(&ListParams::default()).await.expect("should list pods");
    all.iter().filter(|pod| !together.contains(&uid(*pod))).filter_map(address).collect()
}

/// The other machines with their pods, and this one, where the API server and the clients of tests are.
fn everything_elsewhere(world: &World, pod: &Pod) -> Vec<String> {
    let nodes = world.local().nodes();
    let others = nodes.iter().filter(|node| node.name() != machine(pod));
    let others = others.flat_map(|node| Side::from(node.layout()).addresses);
    others.chain([HOST_ADDRESS.to_string()]).collect()
}

fn partition(world: &World, pod: &Pod, addresses: Vec<String>) -> Partition {
    let node = world.local().node(&machine(pod)).expect("should know the machine");
    let pod = Side::of_pod(node.layout(), &address(pod).expect("should have an address"));
    let others = Side { addresses, ..pod.clone() };
    Partition::both_ways(&pod, &[others])
}

async fn fill(world: &World, pod: &Pod) -> Fill {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    let mut claims = volumes.into_iter().flatten().filter_map(|one| one.persistent_volume_claim.as_ref());
    let claim = claims.next().expect("should have a claim");
    let claim = world.get::<PersistentVolumeClaim>(&claim.claim_name).await;
    let volume = claim.spec.and_then(|spec| spec.volume_name).expect("should be bound");
    Fill { mount: world.local().disks().expect("should know the disks").mount_point(&volume) }
}
