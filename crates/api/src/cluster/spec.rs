//! The spec of a `ValkeyCluster`, with every rule the API server can hold by itself.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LocalObjectReference, PodSecurityContext, ResourceRequirements};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Exporter, Networking, Scheduling, User, ValkeyClusterStatus};
use crate::node::{Persistence, PodTemplate, WorkloadType};

/// Rule for the number of clients: with too few of them, nobody could correct it.
const ENOUGH_CLIENTS: &str =
    "self.all(key, key.lowerAscii() != 'maxclients' || !self[key].matches('^ *[+]?0*[0-9]{0,2} *$'))";

/// Whether drains of machines are held back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
pub enum PodDisruptionBudgetMode {
    /// One PodDisruptionBudget for the whole cluster.
    #[default]
    Cluster,
    /// None.
    Disabled,
}

/// How drains of machines are held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudgetSettings {
    /// Whether there is a budget.
    #[serde(default)]
    pub mode: PodDisruptionBudgetMode,
}

/// How changes that need a restart go through the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many shards may have a node away at the same time; 1 if not given. Within a shard it is always one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub max_unavailable_shards: Option<i32>,
}

/// A sharded Valkey: `shards` primaries that share the slots, each with `replicas` copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyCluster",
    namespaced,
    status = "ValkeyClusterStatus",
    shortname = "vkc",
    category = "valkey",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.shards",
        status_replicas_path = ".status.shards",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Shards", type_ = "string", json_path = ".status.summary.shards"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.summary.nodes"),
    printcolumn(name = "Slots", type_ = "string", json_path = ".status.summary.slots"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 38")
        .message("the name of a ValkeyCluster can have 38 characters at most: names of objects derived from it must fit into 63"),
    validation = Rule::new("!self.metadata.name.contains('.')")
        .message("the name of a ValkeyCluster cannot contain a dot: its Services are single DNS labels"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.workloadType == oldSelf.workloadType")
    .message("workloadType cannot be changed: create a new cluster of the other type"))]
#[x_kube(validation = Rule::new(crate::node::PERSISTENCE_STAYS)
    .message("persistence cannot be added to or removed from a cluster: the data would be left behind; create a new cluster"))]
#[x_kube(validation = Rule::new("(has(self.networking) && has(self.networking.tls)) == (has(oldSelf.networking) && has(oldSelf.networking.tls))")
    .message("networking.tls cannot be added to or removed from a cluster: its servers could not speak to each other in between; create a new cluster"))]
#[x_kube(validation = Rule::new("!has(self.persistence) || !has(self.persistence.existingClaim) || self.persistence.existingClaim.size() <= 246")
    .message("persistence.existingClaim can have 246 characters at most in a cluster: shard and index of each node are added to it"))]
pub struct ValkeyClusterSpec {
    /// Image of the servers, for example `valkey/valkey:9.1`; the operator's default at the time the cluster is made if
    /// not given.
    #[serde(default, deserialize_with = "crate::absent::if_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^\S*$"))]
    pub image: Option<String>,
    /// Secrets to pull the images with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How many primaries share the slots.
    #[schemars(range(min = 1, max = 500))]
    pub shards: i32,
    /// Copies of each shard, without its primary.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10))]
    pub replicas: i32,
    /// Requests and limits of each server's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Where the pods run, and how far apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// The metrics exporter beside each server; it runs with defaults if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter: Option<Exporter>,
    /// Which Kubernetes object keeps each pod alive. Cannot be changed.
    #[serde(default)]
    pub workload_type: WorkloadType,
    /// Where each node keeps its data; without it, in the pod. With `mode: external`, `existingClaim` is the first part
    /// of the claims' names: node 0 of shard 2 uses `<existingClaim>-2-0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = crate::schema::claims_of_a_cluster)]
    pub persistence: Option<Persistence>,
    /// ACL users, the same on every node. Changes reach running servers without a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub users: Vec<User>,
    /// Laid over the containers of each pod, by name: `valkey` (or `server`) is the server's, `metrics-exporter` the
    /// exporter's; any other name adds a container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::container_overlays")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[x_kube(validation = Rule::new("!self.exists(container, container.name == 'valkey') || !self.exists(container, container.name == 'server')")
        .message("containers has both valkey and server, which are the same container: merge them"))]
    #[x_kube(validation = Rule::new("!self.exists(container, container.name == 'valkey-init')")
        .message("containers cannot have valkey-init, the operator's own init container: give yours another name"))]
    #[x_kube(validation = Rule::new("self.all(container, container.name in ['valkey', 'server', 'metrics-exporter'] || has(container.image))")
        .message("a container that is added needs an image; valkey, server and metrics-exporter are the names of those that are there"))]
    #[x_kube(validation = Rule::new("self.all(container, !(container.name in ['valkey', 'server']) || !has(container.command))")
        .message("containers cannot replace the command of the server, which the operator's agent starts: write directives into config"))]
    pub containers: Vec<serde_json::Value>,
    /// Directives of `valkey.conf`: live where the servers can, otherwise by restarting node after node. Directives that
    /// the operator needs for itself are ignored and reported by the condition `ConfigurationWarning`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::directives_of_a_cluster")]
    #[x_kube(validation = Rule::new(crate::node::DIRECTIVE_NAMES)
        .message("a key of config must be the name of one valkey.conf directive, for example maxmemory-policy"))]
    #[x_kube(validation = Rule::new(ENOUGH_CLIENTS)
        .message("config: maxclients must be 100 at least: the operator, the agent, the exporter and replicas are clients too"))]
    pub config: BTreeMap<String, String>,
    /// Seconds each server has to hand over and stop by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub termination_grace_period_seconds: Option<i64>,
    /// How clients reach the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// How drains of machines are held back; one budget for the cluster if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudgetSettings>,
    /// Security settings of each pod; the operator's restricted ones if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<PodSecurityContext>,
    /// Laid over each pod that the operator builds, after `containers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// How changes that need a restart go through the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}
