//! The status of a `ValkeyCluster`: what was seen and what is being done, without anything that moves by itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a cluster is, in one word.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::EnumIter,
)]
pub enum ClusterPhase {
    /// Nothing was made yet.
    #[default]
    Pending,
    /// It is being formed for the first time.
    Creating,
    /// Every slot is served and every node is as the spec asks.
    Ready,
    /// It serves while a change goes through it.
    Updating,
    /// Something is missing: a copy, a node or a part of the slots.
    Degraded,
    /// The operator cannot go on before somebody changes something; the message says what.
    Error,
    /// No node can be reached: what the cluster does is not known.
    Unbound,
    /// It is being deleted.
    Deleting,
}

/// What the columns of `kubectl get` show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Shards that are ready, of those the spec asks for, for example `3/3`.
    pub shards: String,
    /// Nodes that are ready, of those the spec asks for, for example `6/6`.
    pub nodes: String,
    /// Slots that are served, of all, for example `16384/16384`.
    pub slots: String,
}

/// The operator's default images at the time the cluster was made. A newer operator with other defaults moves no server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Image of the servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Image of the exporters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter: Option<String>,
    /// Image of the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// One copy of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// Name of the ValkeyNode.
    pub node: String,
    /// Whether it is connected to its primary and has what the primary has, apart from what is on the way.
    #[serde(default)]
    pub in_sync: bool,
}

/// One shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardStatus {
    /// Number of the shard, from 0.
    pub index: i32,
    /// The slots it serves, for example `0-5460`.
    #[serde(default)]
    pub slots: String,
    /// Name of the ValkeyNode that takes its writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// Whether its slots are served and every copy the spec asks for is in sync.
    #[serde(default)]
    pub ready: bool,
    /// Its other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaStatus>,
}

/// The change that goes through the cluster. It is written before each step, so that another operator can go on from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Orchestration {
    /// What is being done.
    pub name: String,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The step that is being taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// What was done last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_action: Option<String>,
    /// What it works towards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Changes that wait for this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
}

/// What a drain of a machine may do at present.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
pub enum BudgetMode {
    /// One pod may go.
    #[default]
    Normal,
    /// No pod may go while a change is under way or a copy is missing.
    Locked,
}

/// The cluster's PodDisruptionBudget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// What a drain may do at present.
    pub mode: BudgetMode,
}

/// The users as the servers have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AclStatus {
    /// Whether every node has the users of the spec.
    #[serde(default)]
    pub synced: bool,
    /// Revision of the users file that the nodes should have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Value of the annotation `valkey.io/rotate-system-passwords` for which the system users last got new passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_rotation: Option<String>,
}

/// What was last seen of a cluster. Empty fields are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyClusterStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How the cluster is, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClusterPhase>,
    /// Why, as a constant for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, as a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many shards have slots.
    #[serde(default)]
    pub shards: i32,
    /// How many of them are ready.
    #[serde(default)]
    pub ready_shards: i32,
    /// Selector of the cluster's pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What the columns of `kubectl get` show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Version the servers report; the oldest one while they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The operator's default images at the time the cluster was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
    /// Every shard with its slots and nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["index".into()]))]
    pub shard_details: Vec<ShardStatus>,
    /// The change that goes through the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<Orchestration>,
    /// The cluster's PodDisruptionBudget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<BudgetStatus>,
    /// The users as the servers have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<AclStatus>,
    /// See the list of conditions and reasons in the documentation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

impl ValkeyClusterStatus {
    /// The stored condition of this type.
    pub fn condition(&self, type_: crate::condition::ClusterCondition) -> Option<&Condition> {
        crate::condition::find(&self.conditions, type_)
    }
}
