//! What the operator costs: memory, calls to the API server, bytes on disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use devcluster::faults::ContainerGroup;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;

use crate::{World, operator};

/// Resident memory of the leading operator, in KiB, as the kernel counts it.
pub async fn resident_kib(world: &World) -> u64 {
    let leader = operator::leader(&world.client).await.expect("somebody should lead");
    let pods = Api::<Pod>::namespaced(world.client.clone(), operator::NAMESPACE);
    let pod = pods.get(&leader).await.expect("should be there");
    let group = ContainerGroup::of(&pod, "operator").expect("should find the container");
    let process = group.main_process().expect("should have a process");
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("should read");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("should have a line");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("should be a number")
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
