//! Where the pods of a cluster run: what the user wrote, and the rules that keep copies of one shard apart.

use std::collections::BTreeMap;

use api::cluster::{Scheduling, Spread, SpreadMode, SpreadRule};
use api::keys;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
    PodAntiAffinity, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Identity;

const MACHINE: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Rules for one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Placement {
    pub(super) affinity: Option<Affinity>,
    pub(super) topology_spread_constraints: Vec<TopologySpreadConstraint>,
}

/// The rules for the pod of a node.
pub(super) fn placement(
    identity: &Identity,
    scheduling: Option<&Scheduling>,
    shard: u32,
    index: u32,
) -> Placement {
    let none = Scheduling::default();
    let scheduling = scheduling.unwrap_or(&none);
    let machine = scheduling.node.as_ref().and_then(|node| node.spread.as_ref());
    let zone = scheduling.zone.as_ref().and_then(|zone| zone.spread.as_ref());
    let mut placement = Placement {
        affinity: scheduling.affinity.clone(),
        topology_spread_constraints: scheduling.topology_spread_constraints.clone(),
    };
    // Machines weigh more than zones: two copies in one zone survive the loss of a machine, not the other way round.
    for (topology, spread, weight) in [(MACHINE, machine, 100), (ZONE, zone, 50)] {
        keep_shard_apart(identity, shard, topology, spread, weight, &mut placement);
        spread_evenly(identity, index, topology, spread, &mut placement);
    }
    if let Some(pinning) = scheduling.zone.as_ref().and_then(|zone| zone.pinning.as_ref()) {
        pin(&pinning.zones, shard, index, &mut placement);
    }
    placement
}

fn mode(rule: Option<&SpreadRule>, default: SpreadMode) -> SpreadMode {
    rule.map_or(default, |rule| rule.mode)
}

fn of_shard(identity: &Identity, shard: u32) -> LabelSelector {
    let mut labels = identity.selector();
    labels.insert(keys::SHARD_INDEX.to_owned(), shard.to_string());
    select(labels)
}

fn select(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}

/// Copies of one shard on different machines and in different zones, by default where it can be had.
fn keep_shard_apart(
    identity: &Identity,
    shard: u32,
    topology: &str,
    spread: Option<&Spread>,
    weight: i32,
    placement: &mut Placement,
) {
    let term = PodAffinityTerm {
        topology_key: topology.to_owned(),
        label_selector: Some(of_shard(identity, shard)),
        ..PodAffinityTerm::default()
    };
    let rules = |placement: &mut Placement, add: &dyn Fn(&mut PodAntiAffinity)| {
        add(placement.affinity.get_or_insert_default().pod_anti_affinity.get_or_insert_default());
    };
    match mode(spread.and_then(|spread| spread.shard.as_ref()), SpreadMode::Preferred) {
        SpreadMode::Disabled => {}
        SpreadMode::Preferred => rules(placement, &|rules| {
            rules
                .preferred_during_scheduling_ignored_during_execution
                .get_or_insert_default()
                .push(WeightedPodAffinityTerm { weight, pod_affinity_term: term.clone() });
        }),
        SpreadMode::Required => rules(placement, &|rules| {
            rules
                .required_during_scheduling_ignored_during_execution
                .get_or_insert_default()
                .push(term.clone());
        }),
    }
}

/// All pods, or those that start as primaries, evenly over machines or zones.
fn spread_evenly(
    identity: &Identity,
    index: u32,
    topology: &str,
    spread: Option<&Spread>,
    placement: &mut Placement,
) {
    let Some(spread) = spread else { return };
    let mut add = |rule: Option<&SpreadRule>, labels: BTreeMap<String, String>| {
        let when = match mode(rule, SpreadMode::Disabled) {
            SpreadMode::Disabled => return,
            SpreadMode::Preferred => "ScheduleAnyway",
            SpreadMode::Required => "DoNotSchedule",
        };
        let taken = placement
            .topology_spread_constraints
            .iter()
            .any(|known| known.topology_key == topology && known.when_unsatisfiable == when);
        // Kubernetes takes only one constraint of a kind per topology.
        if taken {
            return;
        }
        placement.topology_spread_constraints.push(TopologySpreadConstraint {
            max_skew: 1,
            topology_key: topology.to_owned(),
            when_unsatisfiable: when.to_owned(),
            label_selector: Some(select(labels)),
            ..TopologySpreadConstraint::default()
        });
    };
    // The rule for fewer pods comes first: it is the sharper one.
    if index == 0 {
        let mut first = identity.selector();
        first.insert(keys::NODE_INDEX.to_owned(), "0".to_owned());
        add(spread.primaries.as_ref(), first);
    }
    add(spread.pods.as_ref(), identity.selector());
}

/// Each node into one of the zones, so that the copies of a shard fall into different ones.
fn pin(zones: &[String], shard: u32, index: u32, placement: &mut Placement) {
    let Ok(count) = u32::try_from(zones.len()) else { return };
    if count == 0 {
        return;
    }
    let Some(zone) = zones.get(((shard + index) % count) as usize) else { return };
    let here = NodeSelectorRequirement {
        key: ZONE.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![zone.clone()]),
    };
    let affinity = placement.affinity.get_or_insert_default();
    let nodes = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let required =
        nodes.required_during_scheduling_ignored_during_execution.get_or_insert_with(NodeSelector::default);
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    // The user's terms are alternatives: the zone must hold in each of them.
    for term in &mut required.node_selector_terms {
        term.match_expressions.get_or_insert_default().push(here.clone());
    }
}
