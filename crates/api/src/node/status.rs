//! The status of a `ValkeyNode`: what was seen, without anything that moves by itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a server is to its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum ObservedRole {
    /// It takes writes.
    Primary,
    /// It follows a primary.
    Replica,
}

/// The directives the running server is known to work with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningConfig {
    /// Hash of the directives together with the run of the server they were applied to.
    pub revision: String,
    /// Names of the directives this run of the server was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Hash of the run itself: it tells a restart from a changed spec.
    pub run: String,
}

/// What was last seen of a node. Empty fields are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyNodeStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The pod is ready and its server answers.
    #[serde(default)]
    pub ready: bool,
    /// The pod that runs the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Its address.
    #[serde(default, rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<String>,
    /// The volume claim with the data.
    #[serde(default, rename = "pvcName", skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,
    /// The headless Service of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// `primary` or `replica`; empty while the node is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_role: Option<ObservedRole>,
    /// The ValkeyNode this one replicates from (its address where no ValkeyNode has it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_replica_of: Option<String>,
    /// Version the server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// Revision of the template the workload has now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_revision: Option<String>,
    /// Revision that waits for the owner's `spec.workloadRevision`, or for the pod to be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_workload_revision: Option<String>,
    /// The directives the running server is known to work with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_config: Option<RunningConfig>,
    /// Hash of the directives that the server refused: they are kept out of the file it starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_config: Option<String>,
    /// See the list of conditions and reasons in the documentation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

impl ValkeyNodeStatus {
    /// The stored condition of this type.
    pub fn condition(&self, type_: crate::condition::NodeCondition) -> Option<&Condition> {
        crate::condition::find(&self.conditions, type_)
    }
}
