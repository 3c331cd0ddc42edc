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
    let before = counters(world).await;
    tokio::time::sleep(span).await;
    let after = counters(world).await;
    after
        .into_iter()
        .map(|(call, count)| {
            let earlier = before.get(&call).copied().unwrap_or(0);
            (call, count - earlier)
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}

async fn counters(world: &World) -> BTreeMap<String, u64> {
    let leader = operator::leader(&world.client).await.expect("somebody should lead");
    let path = format!("/api/v1/namespaces/{}/pods/{leader}:8080/proxy/metrics", operator::NAMESPACE);
    let request = http::Request::get(path).body(Vec::new()).expect("should be a request");
    let text = world.client.request_text(request).await.expect("the leader should print its metrics");
    text.lines()
        .filter_map(|line| line.strip_prefix("valkey_operator_api_calls_total{"))
        .filter_map(|line| line.split_once("} "))
        .filter_map(|(labels, count)| Some((labels.to_owned(), count.parse().ok()?)))
        .collect()
}

/// Size of a file in bytes.
pub fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}
