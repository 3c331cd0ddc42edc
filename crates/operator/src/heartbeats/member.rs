//! Whether somebody may speak for a pod. Its certificate says who it is; that it is there, and speaks from where that pod is, is what
//! Kubernetes knows. So a certificate that was carried away is of no use anywhere else.

use std::net::IpAddr;
use std::sync::Arc;

use api::{keys, names};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use pki::{Identity, Role};
use snafu::Snafu;

/// A pod that somebody speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) namespace: String,
    pub(crate) cluster: String,
    pub(crate) node: String,
    pub(crate) uid: String,
}

/// Why somebody does not speak for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Snafu, strum::IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
pub(super) enum Unwelcome {
    #[snafu(display("only the agents of pods are heard here"))]
    NoAgent,
    #[snafu(display("the cluster has no such pod"))]
    NoSuchPod,
    #[snafu(display("the pod is somewhere else"))]
    WrongAddress,
    #[snafu(display("the message is of another pod"))]
    AnotherPod,
}

/// The pod that an agent speaks for, from the pods of its namespace.
pub(super) fn member(
    identity: &Identity,
    address: IpAddr,
    pods: impl Iterator<Item = Arc<Pod>>,
) -> Result<Member, Unwelcome> {
    let (Role::Sidecar, Some(claimed)) = (identity.role, identity.pod.as_deref()) else {
        return Err(Unwelcome::NoAgent);
    };
    let mut found = Err(Unwelcome::NoSuchPod);
    for pod in pods.filter(|pod| is_in(pod, identity)) {
        let Some(node) = pod.labels().get(keys::INSTANCE).filter(|node| is_pod_of(&pod, node, claimed))
        else {
            continue;
        };
        if !addresses(&pod).any(|known| known == address) {
            found = Err(Unwelcome::WrongAddress);
            continue;
        }
        return Ok(Member {
            namespace: identity.namespace.clone(),
            cluster: identity.cluster.clone(),
            node: node.clone(),
            uid: pod.uid().unwrap_or_default(),
        });
    }
    found
}

fn is_in(pod: &Pod, identity: &Identity) -> bool {
    pod.metadata.namespace.as_ref() == Some(&identity.namespace)
        && pod.labels().get(keys::CLUSTER) == Some(&identity.cluster)
}

/// Pods of a Deployment have names that nobody knows before: their certificate is for the workload.
fn is_pod_of(pod: &Pod, node: &str, claimed: &str) -> bool {
    let workload = names::workload(node);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let is_below = |rest: &str| rest.is_empty() || rest.starts_with('-');
    name.strip_prefix(&workload).is_some_and(is_below) && (claimed == name || claimed == workload)
}

/// Where a pod is. One that has ended is nowhere: its address may be somebody else's by now.
pub(super) fn addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> {
    let status = pod.status.as_ref();
    let has_ended = |status: &&k8s_openapi::api::core::v1::PodStatus| {
        matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
    };
    let status = status.filter(|status| !has_ended(status));
    let one = status.and_then(|status| status.pod_ip.as_deref());
    let all = status.into_iter().flat_map(|status| status.pod_ips.iter().flatten()).map(|ip| ip.ip.as_str());
    one.into_iter().chain(all).filter_map(|text| text.parse().ok())
}
