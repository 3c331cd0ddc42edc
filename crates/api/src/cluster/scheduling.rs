//! Where the pods of a cluster run, and how far apart.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rule for the spread over machines. Spread of a shard is left out: it is an affinity, the others are constraints.
const ONE_OF_EACH_STRENGTH_ON_MACHINES: &str = "!has(self.primaries) || !has(self.pods) || \
    self.primaries.mode == 'Disabled' || self.primaries.mode != self.pods.mode";
/// Rule for the spread over zones.
const ONE_OF_EACH_STRENGTH_IN_ZONES: &str = "['Preferred', 'Required'].all(mode, \
    [has(self.shard) && self.shard.mode == mode, \
    has(self.primaries) && self.primaries.mode == mode, \
    has(self.pods) && self.pods.mode == mode].filter(same, same).size() <= 1)";
/// Rule for spread constraints that are given beside a spread over machines.
const NO_RIVAL_ON_MACHINES: &str = "!has(self.topologySpreadConstraints) || !has(self.node) || !has(self.node.spread) || \
    self.topologySpreadConstraints.all(given, given.topologyKey != 'kubernetes.io/hostname' || \
    [has(self.node.spread.primaries) ? self.node.spread.primaries.mode : 'Disabled', \
    has(self.node.spread.pods) ? self.node.spread.pods.mode : 'Disabled']\
    .all(mode, mode != (given.whenUnsatisfiable == 'DoNotSchedule' ? 'Required' : 'Preferred')))";
/// Rule for spread constraints that are given beside a spread over zones.
const NO_RIVAL_IN_ZONES: &str = "!has(self.topologySpreadConstraints) || !has(self.zone) || !has(self.zone.spread) || \
    self.topologySpreadConstraints.all(given, given.topologyKey != 'topology.kubernetes.io/zone' || \
    [has(self.zone.spread.shard) ? self.zone.spread.shard.mode : 'Disabled', \
    has(self.zone.spread.primaries) ? self.zone.spread.primaries.mode : 'Disabled', \
    has(self.zone.spread.pods) ? self.zone.spread.pods.mode : 'Disabled']\
    .all(mode, mode != (given.whenUnsatisfiable == 'DoNotSchedule' ? 'Required' : 'Preferred')))";
/// Rule for pinning beside a spread over zones.
const PINNED_OR_SPREAD: &str = "!has(self.pinning) || !has(self.spread) || (\
    (!has(self.spread.shard) || self.spread.shard.mode == 'Disabled') && \
    (!has(self.spread.primaries) || self.spread.primaries.mode == 'Disabled') && \
    (!has(self.spread.pods) || self.spread.pods.mode == 'Disabled'))";

/// How hard pods are kept apart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
pub enum SpreadMode {
    /// Not at all.
    #[default]
    Disabled,
    /// As far as there is room; a pod that finds none runs anyway.
    Preferred,
    /// A pod that would break the rule waits.
    Required,
}

/// One rule of a spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadRule {
    /// How hard.
    #[serde(default)]
    pub mode: SpreadMode,
}

/// Which pods are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The pods of one shard, so that its copies are not lost together; `Preferred` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<SpreadRule>,
    /// The nodes that are primaries when the cluster is formed (those of index 0). If not given, nodes of the
    /// same index are kept apart where it can be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primaries: Option<SpreadRule>,
    /// All pods of the cluster, evenly; `Disabled` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<SpreadRule>,
}

/// Placement on machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeScheduling {
    /// How pods are spread over machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(ONE_OF_EACH_STRENGTH_ON_MACHINES)
        .message("node.spread: primaries and pods cannot have the same mode unless it is Disabled: a pod can have one spread constraint of each strength per topology key"))]
    pub spread: Option<Spread>,
}

/// The zones a cluster may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZonePinning {
    /// Values of the machines' label `topology.kubernetes.io/zone`. Nodes take them in turn: number shard + index,
    /// counted from 0 and around. The list cannot be changed, only be removed and given again.
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"))
    )]
    #[x_kube(validation = Rule::new("self.all(zone, self.exists_one(same, same == zone))")
        .message("zones must differ from each other: a repeated one would get more than its share of the pods"))]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("zones cannot be changed while pods are pinned, nearly all of them would move at once: remove pinning, wait until the cluster is ready, and add it with the new list"))]
    pub zones: Vec<String>,
}

/// Placement in zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(PINNED_OR_SPREAD)
    .message("zone.pinning goes without zone.spread: a pinned pod has its zone already"))]
pub struct ZoneScheduling {
    /// How pods are spread over zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(ONE_OF_EACH_STRENGTH_IN_ZONES)
        .message("zone.spread: only one of shard, primaries and pods can be Preferred, and only one Required: a pod can have one spread constraint of each strength per topology key"))]
    pub spread: Option<Spread>,
    /// Which zones the pods run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinning: Option<ZonePinning>,
}

/// Where the pods of a cluster run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.zone) || !has(self.zone.pinning) || !has(self.nodeSelector) || !('topology.kubernetes.io/zone' in self.nodeSelector)")
    .message("nodeSelector cannot name topology.kubernetes.io/zone while zone.pinning is given, which sets it for each pod"))]
#[x_kube(validation = Rule::new(NO_RIVAL_ON_MACHINES)
    .message("topologySpreadConstraints has a constraint on kubernetes.io/hostname of the same strength as node.spread: a pod can have one; remove it or set node.spread to Disabled"))]
#[x_kube(validation = Rule::new(NO_RIVAL_IN_ZONES)
    .message("topologySpreadConstraints has a constraint on topology.kubernetes.io/zone of the same strength as zone.spread: a pod can have one; remove it or set zone.spread to Disabled"))]
pub struct Scheduling {
    /// Taints the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Labels of the machines the pods may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Scheduling constraints of every pod, beside those of `node` and `zone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Spread constraints of every pod, beside those of `node` and `zone`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Priority of the pods.
    #[serde(default, deserialize_with = "crate::absent::if_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// Placement on machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeScheduling>,
    /// Placement in zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneScheduling>,
}
