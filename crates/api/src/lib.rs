//! The kinds of `valkey.io/v1alpha1` as types: specs, statuses, conditions, names and labels. No I/O happens here, so
//! that every program (and every test) can share one truth about what the API looks like.

mod absent;
#[cfg(any(test, feature = "testing"))]
pub mod cases;
pub mod certificates;
pub mod cluster;
pub mod condition;
pub mod keys;
pub mod names;
pub mod node;
#[cfg(test)]
mod rules;
mod schema;

pub use schema::KUBERNETES_FIELDS;

pub use certificates::{ValkeyCA, ValkeyCertificateBinding, ValkeyCertificateBundle};
pub use cluster::{ValkeyCluster, ValkeyClusterSpec, ValkeyClusterStatus};
pub use node::{ValkeyNode, ValkeyNodeSpec, ValkeyNodeStatus};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// The API group of every kind of this project.
pub const GROUP: &str = "valkey.io";

/// Every CRD, in the order in which they are installed and documented.
pub fn all_crds() -> Vec<CustomResourceDefinition> {
    [
        ValkeyNode::crd(),
        ValkeyCluster::crd(),
        ValkeyCA::crd(),
        ValkeyCertificateBundle::crd(),
        ValkeyCertificateBinding::crd(),
    ]
    .into_iter()
    .map(schema::compact)
    .collect()
}
