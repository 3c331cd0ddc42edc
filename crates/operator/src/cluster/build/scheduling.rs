//! Where the pods of a cluster run: what the user wrote, and the rules that keep copies of one shard apart.

use std::collections::BTreeMap;

use api::cluster::{Scheduling, Spread, SpreadMode};
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
    // Machines weigh more than zones: two copies in one zone survive the loss of a machine, not the other way round. Copies
    // of one shard weigh more than a hundred pods of one index: every pod counts.
    for (topology, spread, weights) in [(MACHINE, machine, [100, 1]), (ZONE, zone, [50, 1])] {
        keep_shard_apart(identity, shard, topology, spread, weights[0], &mut placement);
        keep_index_apart(identity, index, topology, spread, weights[1], &mut placement);
        spread_evenly(identity, index, topology, spread, &mut placement);
    }
    if let Some(pinning) = scheduling.zone.as_ref().and_then(|zone| zone.pinning.as_ref()) {
        pin(&pinning.zones, shard, index, &mut placement);
    }
    placement
}

fn select(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}

/// Pods of the cluster that have this in common.
fn alike(identity: &Identity, label: &str, value: u32) -> BTreeMap<String, String> {
    let mut labels = identity.selector();
    labels.insert(label.to_owned(), value.to_string());
    labels
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
    let rule = spread.and_then(|spread| spread.shard.as_ref());
    let mode = rule.map_or(SpreadMode::Preferred, |rule| rule.mode);
    keep_apart(alike(identity, keys::SHARD_INDEX, shard), mode, topology, weight, placement);
}

/// Nodes of one index as well, unless the user has rules for primaries: first all of index 0 lead, later it may be another.
/// A machine with most primaries on it takes with it everybody's right to vote new ones in.
fn keep_index_apart(
    identity: &Identity,
    index: u32,
    topology: &str,
    spread: Option<&Spread>,
    weight: i32,
    placement: &mut Placement,
) {
    if spread.is_none_or(|spread| spread.primaries.is_none()) {
        let labels = alike(identity, keys::NODE_INDEX, index);
        keep_apart(labels, SpreadMode::Preferred, topology, weight, placement);
    }
}

fn keep_apart(
    labels: BTreeMap<String, String>,
    mode: SpreadMode,
    topology: &str,
    weight: i32,
    placement: &mut Placement,
) {
    let term = PodAffinityTerm {
        topology_key: topology.to_owned(),
        label_selector: Some(select(labels)),
        ..PodAffinityTerm::default()
    };
    let rules = |placement: &mut Placement, add: &dyn Fn(&mut PodAntiAffinity)| {
        add(placement.affinity.get_or_insert_default().pod_anti_affinity.get_or_insert_default());
    };
    match mode {
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
    // The rule for fewer pods comes first: it is the sharper one.
    if let Some(rule) = spread.primaries.as_ref().filter(|_| index == 0) {
        constrain(rule.mode, topology, alike(identity, keys::NODE_INDEX, 0), placement);
    }
    if let Some(rule) = &spread.pods {
        constrain(rule.mode, topology, identity.selector(), placement);
    }
}

fn constrain(mode: SpreadMode, topology: &str, labels: BTreeMap<String, String>, placement: &mut Placement) {
    let when = match mode {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a pod prefers to be apart from, as `weight topology label`.
    fn preferences(scheduling: &str, index: u32) -> Vec<String> {
        let identity = Identity {
            name: "c".to_owned(),
            namespace: "n".to_owned(),
            uid: "u".to_owned(),
            generation: None,
        };
        let scheduling: Scheduling = serde_json::from_str(scheduling).expect("should be a scheduling");
        let describe = |term: &WeightedPodAffinityTerm| {
            let topology = term.pod_affinity_term.topology_key.rsplit('/').next().unwrap_or_default();
            let labels = term.pod_affinity_term.label_selector.clone().and_then(|all| all.match_labels);
            let labels = labels.unwrap_or_default();
            let own =
                labels.iter().find(|(key, _)| [keys::SHARD_INDEX, keys::NODE_INDEX].contains(&key.as_str()));
            let (key, value) = own.expect("should tell pods apart");
            format!("{} {topology} {}={value}", term.weight, key.rsplit('/').next().unwrap_or_default())
        };
        let placement = placement(&identity, Some(&scheduling), 1, index);
        let rules = placement.affinity.and_then(|affinity| affinity.pod_anti_affinity).unwrap_or_default();
        let preferred = rules.preferred_during_scheduling_ignored_during_execution.unwrap_or_default();
        preferred.iter().map(describe).collect()
    }

    #[test]
    fn copies_are_kept_apart_and_then_those_that_may_lead_together() {
        assert_eq!(
            preferences("{}", 2),
            [
                "100 hostname shard-index=1",
                "1 hostname node-index=2",
                "50 zone shard-index=1",
                "1 zone node-index=2"
            ]
        );
        let own = r#"{"node": {"spread": {"primaries": {"mode": "Disabled"}}}}"#;
        assert_eq!(
            preferences(own, 0),
            ["100 hostname shard-index=1", "50 zone shard-index=1", "1 zone node-index=0"],
            "the user's rule for primaries replaces ours"
        );
    }
}
