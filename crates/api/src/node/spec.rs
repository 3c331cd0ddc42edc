//! The spec of a `ValkeyNode`, with every rule the API server can hold by itself.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, LocalObjectReference, ResourceRequirements, Toleration, TopologySpreadConstraint,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Access, Persistence, ValkeyNodeStatus};

/// Rule for the keys of `config`: whatever else is no directive, or more than one.
pub(crate) const DIRECTIVE_NAMES: &str = "self.all(key, key.matches('^[A-Za-z][A-Za-z0-9._-]{0,126}$'))";

/// Which Kubernetes object keeps the pod alive.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
pub enum WorkloadType {
    /// A StatefulSet with one replica: a stable pod name.
    #[default]
    StatefulSet,
    /// A Deployment with one replica, replaced by `Recreate`: two servers never share a volume.
    Deployment,
    /// The operator creates and replaces the pod itself.
    Pod,
}

/// When a changed template reaches the running pod.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
pub enum UpdateStrategy {
    /// As soon as the change is allowed (at once for a node without an owner).
    #[default]
    RollingUpdate,
    /// Only when somebody deletes the pod.
    OnDelete,
}

/// Labels and annotations of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplateMetadata {
    /// Added to the pod; a label the operator selects by cannot be replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Added to the pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What is laid over the pod that the operator builds, as a strategic merge patch would be: containers, volumes,
/// mounts, ports and variables are merged by their names, other lists are replaced, `null` removes a field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Labels and annotations of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PodTemplateMetadata>,
    /// Part of a pod's spec. The server's container is called `valkey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::pod_spec_overlay")]
    pub spec: Option<serde_json::Value>,
}

/// One Valkey server in one pod, with its Service, configuration and volume. ValkeyNodes are usually made by the other
/// kinds; one made by hand is a standalone server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyNode",
    namespaced,
    status = "ValkeyNodeStatus",
    shortname = "vkn",
    category = "valkey",
    derive = "PartialEq",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Role", type_ = "string", json_path = ".status.observedRole"),
    printcolumn(name = "Pod-IP", type_ = "string", json_path = ".status.podIP"),
    printcolumn(name = "Workload", type_ = "string", json_path = ".spec.workloadType", priority = 1),
    printcolumn(name = "Pod-Name", type_ = "string", json_path = ".status.podName", priority = 1),
    printcolumn(name = "Replica-Of", type_ = "string", json_path = ".status.observedReplicaOf"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 45")
        .message("the name of a ValkeyNode can have 45 characters at most: names of objects derived from it must fit into 63"),
    validation = Rule::new("!self.metadata.name.contains('.')")
        .message("the name of a ValkeyNode cannot contain a dot: its Service is a single DNS label"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.workloadType == oldSelf.workloadType")
    .message("workloadType cannot be changed: create a new node of the other type"))]
#[x_kube(validation = Rule::new("self.workloadType != 'Deployment' || self.updateStrategy != 'OnDelete'")
    .message("updateStrategy OnDelete needs workloadType StatefulSet or Pod: a Deployment replaces its pod at once"))]
#[x_kube(validation = Rule::new(super::PERSISTENCE_STAYS)
    .message("persistence cannot be added to or removed from a node: the data would be left behind; create a new node and let it replicate"))]
pub struct ValkeyNodeSpec {
    /// Image of the server, for example `valkey/valkey:9.1`.
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^\S+$"))]
    pub image: String,
    /// Secrets to pull the image with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Which Kubernetes object keeps the pod alive. Cannot be changed.
    #[serde(default)]
    pub workload_type: WorkloadType,
    /// Requests and limits of the server's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Labels of the machines the pod may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Scheduling constraints of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints the pod tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// How the pod is spread over zones and machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Priority of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// Laid over the pod that the operator builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// Where the data is kept; without it, in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// Directives of `valkey.conf`, applied as given: live where the server can, otherwise with the next allowed
    /// restart. A directive with several arguments is written as one string (`save: "900 1 300 10"`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::directives")]
    #[x_kube(validation = Rule::new(DIRECTIVE_NAMES)
        .message("a key of config must be the name of one valkey.conf directive, for example maxmemory-policy"))]
    #[x_kube(validation = Rule::new("self.all(key, !(key.lowerAscii() in ['include', 'daemonize', 'supervised', 'dir']))")
        .message("config cannot set include, daemonize, supervised or dir: the operator runs the server in the foreground with its data in /data; write included directives into config"))]
    pub config: BTreeMap<String, String>,
    /// How the operator authenticates to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Seconds the server has to stop by itself; 30 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub termination_grace_period_seconds: Option<i64>,
    /// When a changed template reaches the running pod.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// The revision of the pod template (`status.pendingWorkloadRevision`) that the owner of this node allows to run. A
    /// node without an owner rolls by itself and ignores this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub workload_revision: Option<String>,
}
