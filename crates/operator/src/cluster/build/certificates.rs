//! The authority of a cluster, and the certificates of those who speak to each other: the operator and the agent of each node. Only
//! what makes them what they are is written here; how long they last, and when they are replaced, a user may change.

use api::node::WorkloadType;
use api::{ValkeyCertificateBinding, ValkeyCertificateBundle, keys, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::super::validate::Desired;
use super::Identity;
use crate::objects::{Kind, Wanted};

/// The authority that signs for the channels between the operator and the agents.
pub(in super::super) fn bundle(identity: &Identity) -> Wanted {
    let metadata = identity.owned(names::mtls_bundle(&identity.name));
    let spec = json!({"clusterRef": {"name": identity.name}, "purpose": "mtls"});
    Wanted::partial::<ValkeyCertificateBundle>(&metadata, Kind::ValkeyCertificateBundle, &spec)
}

/// What the operator shows to the agents.
pub(in super::super) fn operator_binding(identity: &Identity) -> Wanted {
    let certificate = json!({
        "component": "operator",
        "bundleRef": {"name": names::mtls_bundle(&identity.name)},
        "secretName": names::operator_certificate(&identity.name),
    });
    binding(identity, &identity.owned(names::operator_binding(&identity.name)), &certificate)
}

/// What the agent of a node shows.
pub(in super::super) fn node_binding(desired: &Desired, shard: u32, index: u32) -> Wanted {
    let identity = &desired.identity;
    let node = names::cluster_node(&identity.name, shard, index);
    let mut metadata = identity.owned(names::node_binding(&node));
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(keys::INSTANCE.to_owned(), node.clone());
    labels.insert(keys::SHARD_INDEX.to_owned(), shard.to_string());
    labels.insert(keys::NODE_INDEX.to_owned(), index.to_string());
    let certificate = json!({
        "component": "sidecar",
        "bundleRef": {"name": names::mtls_bundle(&identity.name)},
        "secretName": names::agent_certificate(&node),
        "pod": party(desired.spec.workload_type, &node),
    });
    binding(identity, &metadata, &certificate)
}

/// Whom an agent's certificate is for. Pods of a Deployment have names that nobody knows before.
fn party(workload_type: WorkloadType, node: &str) -> String {
    match workload_type {
        WorkloadType::StatefulSet | WorkloadType::Pod => names::pod(node),
        WorkloadType::Deployment => names::workload(node),
    }
}

fn binding(identity: &Identity, metadata: &ObjectMeta, certificate: &Value) -> Wanted {
    let spec = json!({"clusterRef": {"name": identity.name}, "certificates": [certificate]});
    Wanted::partial::<ValkeyCertificateBinding>(metadata, Kind::ValkeyCertificateBinding, &spec)
}
