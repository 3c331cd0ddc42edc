//! Bringing a changed pod template to every node: replicas first, then a handover, then the old primary; one node of a
//! shard at a time, and only while the rest of the shard is whole.

use std::collections::{BTreeMap, BTreeSet};

use api::condition::{ClusterReason, NodeCondition, NodeReason};
use api::node::WorkloadType;

use super::super::agent_form::AgentForm;
use super::super::observe::ObservedNode;
use super::super::obstacle;
use super::super::topology::Place;
use super::super::validate::Data;
use super::shard_health::Health;
use super::step::Step;
use super::word;

/// How far a roll is and what it does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roll {
    /// Nodes that still run an older template.
    pub(super) outdated: Vec<String>,
    /// Revisions that may run from now on.
    pub(super) revisions: BTreeMap<Place, String>,
    /// Nodes that get the newest agent first, because they are restarted anyhow.
    pub(super) renewed: BTreeSet<Place>,
    pub(super) step: Option<Step>,
    /// Why it cannot go on by itself.
    pub(super) blocked: Option<Blocked>,
}

/// Why a roll stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Blocked {
    /// No replica can take over from a primary.
    NoReplicaInSync(String),
    /// A pod that was restarted does not come back.
    PodNotBack(String),
    /// A server is too old for what is to be done.
    OldRelease(String),
    /// Objects of a node cannot be what they should be.
    Refused(ClusterReason, String),
}

impl Blocked {
    pub(in super::super) fn message(&self) -> &str {
        match self {
            Self::NoReplicaInSync(message)
            | Self::PodNotBack(message)
            | Self::OldRelease(message)
            | Self::Refused(_, message) => message,
        }
    }

    pub(in super::super) fn reason(&self) -> ClusterReason {
        match self {
            Self::NoReplicaInSync(_) => ClusterReason::NoReplicaInSync,
            Self::PodNotBack(_) => ClusterReason::PodNotBack,
            Self::OldRelease(_) => ClusterReason::OldRelease,
            Self::Refused(reason, _) => *reason,
        }
    }
}

/// Decide what a roll does next.
pub(super) fn roll(health: &Health<'_>, in_flight: &BTreeSet<u32>, data_loss_accepted: bool) -> Roll {
    let mut roll = Roll::default();
    let outdated: BTreeMap<Place, &ObservedNode> = health
        .observed
        .nodes
        .iter()
        .filter(|(_, node)| pending(node).is_some())
        .map(|(p, n)| (*p, n))
        .collect();
    if outdated.is_empty() {
        return roll;
    }
    roll.outdated = outdated.values().map(|node| node.name().to_owned()).collect();
    // A pod that cannot start holds nothing anybody could lose: another template may only help it. A primary that serves
    // beside a container that does not is no such pod.
    // A server that answers may be the last copy, unless a primary answers beside it.
    let can_be_spared = |place: Place| match health.topology.primary(place.0) {
        Some(primary) => primary.place != place,
        None => !health.topology.members.contains_key(&place),
    };
    for (place, node) in outdated.iter().filter(|(_, node)| obstacle::stuck(node).is_some()) {
        if can_be_spared(*place) {
            begin(health, *place, node, &mut roll);
        }
    }
    if roll.step.is_some() {
        return roll;
    }
    let shards: BTreeSet<u32> = health.observed.nodes.keys().map(|place| place.0).collect();
    let mut away = shards.iter().filter(|shard| !health.is_whole(**shard)).count();
    let budget = health.desired.spec.rolling_update.and_then(|settings| settings.max_unavailable_shards);
    let budget = budget.and_then(|budget| usize::try_from(budget).ok()).unwrap_or(1).max(1);
    // Shards that are under way already are finished before others begin.
    let mut order: Vec<u32> = outdated.keys().map(|place| place.0).collect();
    order.dedup();
    order.sort_by_key(|shard| health.is_whole(*shard));
    for shard in order {
        let whole = health.is_whole(shard);
        if whole && away >= budget {
            continue;
        }
        let next = next_in_shard(health, shard, &outdated, in_flight, data_loss_accepted, &mut roll);
        away += usize::from(whole && next);
        if roll.step.is_some() {
            return roll;
        }
    }
    if roll.blocked.is_none() && roll.revisions.is_empty() {
        roll.blocked = held_back(health);
    }
    roll
}

/// Whether something was begun in the shard.
fn next_in_shard(
    health: &Health<'_>,
    shard: u32,
    outdated: &BTreeMap<Place, &ObservedNode>,
    in_flight: &BTreeSet<u32>,
    data_loss_accepted: bool,
    roll: &mut Roll,
) -> bool {
    let mine: Vec<(Place, &ObservedNode)> =
        outdated.iter().filter(|(place, _)| place.0 == shard).map(|(place, node)| (*place, *node)).collect();
    let primary = health.topology.primary(shard).map(|primary| primary.place);
    // The last ones first: the first node of a shard is its primary most of the time.
    let replica = mine.iter().rev().find(|(place, _)| Some(*place) != primary);
    if let Some((place, node)) = replica {
        // It need not be in sync itself: an older server cannot follow a newer one, and a restart is what it needs.
        if health.is_whole_without(*place) && word::is_kept_without(health, *place) {
            begin(health, *place, node, roll);
            return true;
        }
        return false;
    }
    let Some((place, node)) = mine.first() else { return false };
    // What is wrong with its pod alone is what another template may mend.
    let whole = health.is_whole(shard) || (obstacle::stuck(node).is_some() && health.is_whole_around(*place));
    if !whole || in_flight.contains(&shard) {
        return false;
    }
    let newest = |place: Place| !outdated.contains_key(&place);
    if let Some(successor) = health.successor(shard, |_| true, newest) {
        let (to, node) = (successor.place, successor.name.to_owned());
        roll.step = Some(Step::HandOver { shard, to, node });
        return true;
    }
    let alone = health.desired.replicas == 0;
    // Without a replica there is nothing to hand over to. Data on a volume survives the restart; data in the pod does
    // not, and is not given up without a word.
    if alone && (health.desired.data == Data::Kept || data_loss_accepted) {
        begin(health, *place, node, roll);
        return true;
    }
    let why = if alone {
        format!(
            "shard {shard} has no replica, and restarting {} would lose its data: add a replica, or annotate the \
             cluster with valkey.io/accept-data-loss=true",
            node.name()
        )
    } else {
        format!("no replica of shard {shard} is in sync to take over from {}", node.name())
    };
    roll.blocked = Some(Blocked::NoReplicaInSync(why));
    false
}

/// Allow the template, and once it is in place, restart the pod.
fn begin(health: &Health<'_>, place: Place, node: &ObservedNode, roll: &mut Roll) {
    let Some(revision) = pending(node) else { return };
    let allowed = node.node.spec.workload_revision.as_deref() == Some(revision);
    // Only now, and only this one: a change that is taken back before its turn has come restarts nobody.
    if !allowed && AgentForm::of(&node.node).is_some_and(|form| form != health.desired.agent) {
        roll.renewed.insert(place);
        return;
    }
    if !allowed {
        roll.revisions.insert(place, revision.to_owned());
        return;
    }
    // A Deployment restarts its pod by itself.
    if node.node.spec.workload_type == WorkloadType::Deployment || !waits_for_deletion(node) {
        return;
    }
    let Some(pod) = node.pod.as_ref().filter(|pod| !pod.terminating) else { return };
    if roll.step.is_none() {
        roll.step = Some(Step::RestartPod {
            node: node.name().to_owned(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            resource_version: pod.resource_version.clone(),
        });
    }
}

/// The revision a node should run and does not.
fn pending(node: &ObservedNode) -> Option<&str> {
    node.node.status.as_ref()?.pending_workload_revision.as_deref()
}

fn waits_for_deletion(node: &ObservedNode) -> bool {
    let reason: &'static str = NodeReason::WaitingForPodDeletion.into();
    let status = node.node.status.as_ref();
    let condition = status.and_then(|status| status.condition(NodeCondition::WorkloadRollPending));
    // The condition must speak of what was allowed, not of an earlier template.
    condition.is_some_and(|condition| condition.status == "True" && condition.reason == reason)
}

/// Why nothing happens although something is to be done: a node that cannot be what it is allowed to be, or that did not
/// come back.
fn held_back(health: &Health<'_>) -> Option<Blocked> {
    let refused = health.observed.nodes.values().find_map(|node| {
        let (reason, words) = obstacle::refused(node)?;
        Some(Blocked::Refused(reason, format!("{} stays as it is: {words}", node.name())))
    });
    let stuck = health.observed.nodes.values().find_map(|node| {
        let words = obstacle::stuck(node)?;
        Some(Blocked::PodNotBack(format!("{} does not come back: {words}", node.name())))
    });
    refused.or(stuck)
}
