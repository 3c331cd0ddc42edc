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
    let rule = spread.and_then(|spread| spread.shard.as_ref());
    match rule.map_or(SpreadMode::Preferred, |rule| rule.mode) {
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

/// All pods, or those that start as primaries, evenly over machines or zones. By default, where it can be had, those of
/// one index: a machine with most primaries on it would take with it everybody's right to vote a new one in.
fn spread_evenly(
    identity: &Identity,
    index: u32,
    topology: &str,
    spread: Option<&Spread>,
    placement: &mut Placement,
) {
    let mut of_index = identity.selector();
    of_index.insert(keys::NODE_INDEX.to_owned(), index.to_string());
    // The rule for fewer pods comes first: it is the sharper one.
    let primaries = spread.and_then(|spread| spread.primaries.as_ref());
    if let Some(rule) = primaries.filter(|_| index == 0) {
        constrain(rule.mode, topology, &of_index, placement);
    }
    if let Some(rule) = spread.and_then(|spread| spread.pods.as_ref()) {
        constrain(rule.mode, topology, &identity.selector(), placement);
    }
    // Last, because it gives way to everything that the user wrote.
    if primaries.is_none() {
        constrain(SpreadMode::Preferred, topology, &of_index, placement);
    }
}

fn constrain(mode: SpreadMode, topology: &str, labels: &BTreeMap<String, String>, placement: &mut Placement) {
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
        label_selector: Some(select(labels.clone())),
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

    /// The constraints of a pod as `topology when labels`, without those every pod of the cluster has.
    fn constraints(scheduling: &str, index: u32) -> Vec<String> {
        let identity = Identity {
            name: "c".to_owned(),
            namespace: "n".to_owned(),
            uid: "u".to_owned(),
            generation: None,
        };
        let scheduling: Scheduling = serde_json::from_str(scheduling).expect("should be a scheduling");
        let describe = |constraint: &TopologySpreadConstraint| {
            let labels = constraint.label_selector.clone().and_then(|selector| selector.match_labels);
            let index = labels.unwrap_or_default().remove(keys::NODE_INDEX);
            let topology = constraint.topology_key.rsplit('/').next().unwrap_or_default();
            let of = index.map_or("all".to_owned(), |index| format!("index {index}"));
            format!("{topology} {} {of}", constraint.when_unsatisfiable)
        };
        let placement = placement(&identity, Some(&scheduling), 1, index);
        placement.topology_spread_constraints.iter().map(describe).collect()
    }

    #[test]
    fn nodes_of_one_index_are_kept_apart_unless_the_user_says_otherwise() {
        let soft = ["hostname ScheduleAnyway index 0", "zone ScheduleAnyway index 0"];
        assert_eq!(constraints("{}", 0), soft);
        assert_eq!(
            constraints("{}", 2),
            ["hostname ScheduleAnyway index 2", "zone ScheduleAnyway index 2"],
            "after a failover they lead"
        );
        let off = r#"{"node": {"spread": {"primaries": {"mode": "Disabled"}}}}"#;
        assert_eq!(constraints(off, 0), ["zone ScheduleAnyway index 0"]);
        let pods = r#"{"node": {"spread": {"pods": {"mode": "Preferred"}}}}"#;
        assert_eq!(constraints(pods, 0), ["hostname ScheduleAnyway all", "zone ScheduleAnyway index 0"]);
        let must = r#"{"node": {"spread": {"primaries": {"mode": "Required"}}}}"#;
        assert_eq!(constraints(must, 0), ["hostname DoNotSchedule index 0", "zone ScheduleAnyway index 0"]);
        assert_eq!(constraints(must, 1), ["zone ScheduleAnyway index 1"]);
        let own = r#"{"topologySpreadConstraints": [
            {"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 2}]}"#;
        assert_eq!(constraints(own, 0), ["hostname ScheduleAnyway all", "zone ScheduleAnyway index 0"]);
    }
}
