//! What the operator and the agents cost: memory, processor time, calls to the API server, bytes on disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use devcluster::faults::ContainerGroup;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;

use crate::{World, operator};

/// Resident memory of the leading operator, in KiB, as the kernel counts it.
pub async fn resident_kib(world: &World) -> u64 {
    leader(world).await.resident_kib()
}

/// The operator that leads.
pub async fn leader(world: &World) -> Process {
    let leader = operator::leader(&world.client).await.expect("somebody should lead");
    let pods = Api::<Pod>::namespaced(world.client.clone(), operator::NAMESPACE);
    let pod = pods.get(&leader).await.expect("should be there");
    Process::of(&pod, "operator")
}

/// The main process of a container.
pub struct Process {
    pid: String,
}

impl Process {
    /// That of a container of a pod on this machine.
    pub fn of(pod: &Pod, container: &str) -> Self {
        let group = ContainerGroup::of(pod, container).expect("should find the container");
        Self { pid: group.main_process().expect("should have a process").pid.to_string() }
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.pid)).expect("should read")
    }

    /// Its resident memory, in KiB, as the kernel counts it.
    pub fn resident_kib(&self) -> u64 {
        let status = self.read("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("should have a line");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("should be a number")
    }

    /// The processor time it has had so far.
    pub fn processor_time(&self) -> Duration {
        // Nanoseconds on a processor come first.
        let figures = self.read("schedstat");
        let first = figures.split_whitespace().next().and_then(|number| number.parse().ok());
        Duration::from_nanos(first.expect("should be a number"))
    }
}

/// Calls of the leading operator to the API server, by verb and resource, within `span`.
pub async fn api_calls(world: &World, span: Duration) -> BTreeMap<String, u64> {
    let name = "valkey_operator_api_calls";
    operator::counted(&world.client, name, tokio::time::sleep(span)).await
}

/// Size of a file in bytes.
pub fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}
