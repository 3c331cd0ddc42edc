//! What to do: desired × observed × what the status remembers → writes in their order, commands for the servers, and at
//! most one disruptive step.

mod fence;
mod formation;
mod heal;
mod merge;
mod objects;
mod open_slots;
mod roll;
mod scale;
mod shard_health;
mod slot_moves;
mod step;
mod word;

use std::collections::{BTreeMap, BTreeSet};

use api::ValkeyClusterStatus;
use api::cluster::BudgetMode;
use api::condition::{ClusterCondition, ClusterReason};

use super::command::{Command, Order, Stage};
use super::observe::{Observed, ObservedNode};
use super::obstacle;
use super::topology::{self, Member, Place, Topology};
use super::users::{self, Turn, Users};
use super::validate::Desired;
use crate::objects::Write;

pub(super) use objects::wants_budget;
pub(super) use open_slots::open_slots;
pub(super) use roll::Blocked;
use shard_health::Health;
use slot_moves::Begun;
pub(super) use step::Step;

/// What the cluster orders beyond what its spec says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    /// Revisions of pod templates that may run now.
    pub(super) revisions: BTreeMap<Place, String>,
    pub(super) budget: BudgetMode,
    /// Nodes whose pods get the newest agent, because they are about to be restarted for another reason.
    pub(super) renewed: BTreeSet<Place>,
}

/// Something done or decided that a user should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deed {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) note: String,
    /// The node it is about: events that are about different nodes are told one by one.
    pub(super) node: Option<String>,
}

impl Deed {
    pub(super) fn about(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    pub(super) fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: true, reason, note: note.into(), node: None }
    }

    pub(super) fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: false, reason, note: note.into(), node: None }
    }
}

/// A change with more than one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Undertaking {
    pub(super) name: &'static str,
    /// How far it is, for people.
    pub(super) progress: String,
    /// The step that comes next: announced by this pass, taken by a later one.
    pub(super) next: Option<String>,
    /// Nodes that are still to be done.
    pub(super) pending: Vec<String>,
}

/// Names of changes, as the status shows them.
const ROLL: &str = "RollingUpdate";
const SCALE: &str = "Scale";
const MERGE: &str = "MergeShards";
const RECOVERY: &str = "Recovery";

/// All of them.
pub(super) const CHANGES: [&str; 4] = [ROLL, SCALE, MERGE, RECOVERY];

/// Whether slots are on their way.
pub(super) fn is_moving_slots(status: &ValkeyClusterStatus) -> bool {
    let progress = status.orchestration.as_ref().and_then(|known| known.phase.as_deref());
    progress.is_some_and(|progress| progress.ends_with(SLOTS_LEFT))
}

/// Whether slots move in a change of this name.
pub(super) fn moves_slots(name: &str) -> bool {
    [SCALE, MERGE].contains(&name)
}

/// Why a change of this name is made.
pub(super) fn reason_for(name: &str) -> ClusterReason {
    match name {
        SCALE => ClusterReason::Scaling,
        MERGE | RECOVERY => ClusterReason::Healing,
        _ => ClusterReason::Rolling,
    }
}

/// How the progress of slots that move ends.
const SLOTS_LEFT: &str = "slots are still to be moved";

/// Everything a pass does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) writes: Vec<Write>,
    /// Commands for the servers: one stage after the other, those of a stage at once.
    pub(super) stages: Vec<Stage>,
    /// Commands that nothing else waits for, the last of all: each of them only hastens what would happen anyway, or can be
    /// given as well by the next pass.
    pub(super) trifles: Stage,
    /// Stages and step mend a cluster that was formed: they are not kept back by something that cannot be written.
    pub(super) heals: bool,
    /// Changes of users, by node.
    pub(super) users: BTreeMap<Place, users::Changes>,
    pub(super) orders: Orders,
    pub(super) deeds: Vec<Deed>,
    /// Shards in which a replica is told to take over.
    pub(super) promotions: BTreeSet<u32>,
    /// What cannot be mended without a word of the user.
    pub(super) waits: Vec<String>,
    /// The change that goes through the cluster.
    pub(super) undertaking: Option<Undertaking>,
    /// The disruptive step that was announced before and is taken now.
    pub(super) step: Option<Step>,
    /// Why the change cannot go on by itself.
    pub(super) blocked: Option<Blocked>,
    /// Servers settle things among themselves just now: looking again soon is worth it.
    pub(super) settling: bool,
    /// Somebody else may be at work: if it stays like this, it is ours to mend.
    pub(super) watching: bool,
}

impl Plan {
    /// There is nothing to do, to tell or to wait for.
    pub(super) fn is_idle(&self) -> bool {
        // Of orders, the budget's mode is always there; what differs from it is a write.
        let idle = Self { orders: self.orders.clone(), heals: self.heals, ..Self::default() };
        self.orders.revisions.is_empty() && self.orders.renewed.is_empty() && *self == idle
    }

    /// Slots are on their way, and nothing else is begun before they have arrived.
    pub(super) fn waits_for_slots(&self) -> bool {
        let moves = |undertaking: &Undertaking| undertaking.progress.ends_with(SLOTS_LEFT);
        self.settling && self.stages.is_empty() && self.undertaking.as_ref().is_some_and(moves)
    }

    /// A cluster that was formed is being mended just now.
    pub(super) fn is_healing(&self) -> bool {
        self.heals && (self.settling || !self.stages.is_empty() || self.step.is_some())
    }
}

/// Decide.
pub(super) fn plan(
    desired: &Desired,
    observed: &Observed,
    topology: &Topology<'_>,
    users: &Users,
    status: &ValkeyClusterStatus,
    in_flight: &BTreeSet<u32>,
    left_behind: &BTreeSet<u16>,
) -> Plan {
    let mut plan = Plan::default();
    let in_flight = &in_flight.iter().copied().chain(topology::in_turn(observed)).collect();
    if !observed.collisions.is_empty() && !was_formed(status) {
        // Something we need is not ours: half a cluster would only hide it.
        return plan;
    }
    plan.users = users::changes(users, topology);
    topology_commands(desired, observed, topology, status, in_flight, &mut plan);
    if plan.stages.is_empty() && was_formed(status) {
        settle_open_slots(&Health { desired, observed, topology }, status, left_behind, &mut plan);
    }
    if !observed.collisions.is_empty() {
        // A cluster that serves is kept going as it is.
        return plan;
    }
    // Healing comes before everything that takes something away.
    if plan.stages.is_empty() && was_formed(status) {
        undertake(desired, observed, topology, status, in_flight, &mut plan);
    }
    // Until every node has looked at its newest spec, nobody knows whether it asks for a restart.
    plan.settling |= observed.nodes.values().any(ObservedNode::lags);
    plan.trifles =
        [formation::greet_again(topology), renew_passwords(topology), tell_zones(observed, topology)]
            .concat();
    let mends = plan.undertaking.as_ref().is_none_or(|undertaking| undertaking.name == RECOVERY);
    plan.heals = was_formed(status) && mends;
    if users.turn == Some(Turn::Switched) {
        let note = "the system users have new passwords; those before stay valid until the next rotation";
        plan.deeds.push(Deed::normal("SystemPasswordsRotated", note));
    }
    plan.orders.budget = objects::budget_mode(every_shard_has_a_copy(desired, topology));
    plan.writes = objects::writes(desired, observed, users, &plan.orders);
    plan
}

/// Servers that would show their primary an older password the next time they connect.
fn renew_passwords(topology: &Topology<'_>) -> Stage {
    let outdated = topology.members.values().filter(|member| member.facts.shows_old_password);
    outdated.map(|member| Command { at: member.place, order: Order::RenewPassword }).collect()
}

/// Servers that are not told yet in which zone their machine is. Not by way of their nodes: a pod has no machine before it
/// exists, and every node would be written twice.
fn tell_zones(observed: &Observed, topology: &Topology<'_>) -> Stage {
    let untold = |member: &Member<'_>| {
        let zone = observed.nodes.get(&member.place)?.pod.as_ref()?.zone.as_ref()?;
        let told = member.facts.zone.as_ref()?;
        (told != zone).then(|| Command { at: member.place, order: Order::SetZone(zone.clone()) })
    };
    topology.members.values().filter_map(untold).collect()
}

/// One change at a time goes through the cluster.
fn undertake(
    desired: &Desired,
    observed: &Observed,
    topology: &Topology<'_>,
    status: &ValkeyClusterStatus,
    in_flight: &BTreeSet<u32>,
    plan: &mut Plan,
) {
    let fencing = fence::fence(desired, observed, topology, in_flight);
    if !fencing.silent.is_empty() {
        recover(fencing, status, plan);
        return;
    }
    let health = Health { desired, observed, topology };
    let is_under_way = |name| status.orchestration.as_ref().is_some_and(|known| known.name == name);
    let mut merge = merge::merge(&health, is_under_way(MERGE), in_flight);
    // Where servers are too old for it, a roll may help.
    if let Some(merge) = merge.take_if(|merge| merge.moves.blocked.is_none()) {
        begin_moves(&health, merge.moves, &merge.progress, status, plan);
        announce_or_take(MERGE, merge.progress, None, merge.pending, status, plan);
        return;
    }
    let roll = roll::roll(&health, in_flight, desired.data_loss_accepted);
    if !roll.outdated.is_empty() {
        let all = observed.nodes.len();
        let progress = format!("{} of {all} nodes done", all - roll.outdated.len());
        plan.orders.revisions = roll.revisions;
        plan.orders.renewed = roll.renewed;
        plan.blocked = roll.blocked;
        announce_or_take(ROLL, progress, roll.step, roll.outdated, status, plan);
        return;
    }
    if let Some(merge) = merge {
        plan.blocked = merge.moves.blocked;
        announce_or_take(MERGE, merge.progress, None, merge.pending, status, plan);
        return;
    }
    let scale = scale::scale(&health, is_under_way(SCALE), in_flight);
    if scale.needed {
        plan.blocked = scale.blocked;
        begin_moves(&health, scale.moves, &scale.progress, status, plan);
        announce_or_take(SCALE, scale.progress, scale.step, scale.pending, status, plan);
    }
}

/// Most primaries are silent: nothing else is done before they are back or replaced.
fn recover(fencing: fence::Fencing, status: &ValkeyClusterStatus, plan: &mut Plan) {
    plan.waits.extend(fencing.waits);
    plan.deeds.extend(fencing.deeds);
    plan.promotions.extend(fencing.promotions);
    plan.settling |= !fencing.takeover.is_empty();
    plan.stages.extend((!fencing.takeover.is_empty()).then_some(fencing.takeover));
    let progress = format!("{} primaries are silent, too many to elect others", fencing.silent.len());
    announce_or_take(RECOVERY, progress, fencing.step, fencing.silent, status, plan);
}

/// Tell the servers, and the user of what is new.
fn begin_moves(
    health: &Health<'_>,
    moves: Begun,
    progress: &str,
    status: &ValkeyClusterStatus,
    plan: &mut Plan,
) {
    let was_moving = is_moving_slots(status);
    for command in &moves.commands {
        let node = health.name(command.at);
        // A second failure is not followed by a third try at once.
        if moves.failures.iter().any(|(failed, _)| *failed == node) {
            plan.promotions.insert(command.at.0);
        }
        // Every pass carries on with slots that move one by one, and only the first is worth a word.
        if !matches!(command.order, Order::Carry(_)) || !was_moving {
            plan.deeds.push(Deed::normal("MovingSlots", progress).about(&node));
        }
    }
    for (node, words) in moves.failures {
        plan.deeds.push(Deed::warning("MigrationFailed", words).about(&node));
    }
    if moves.to_be_announced {
        plan.deeds.push(Deed::normal("MovingSlots", progress));
    }
    plan.settling |= moves.to_be_announced || moves.under_way;
    plan.stages.extend((!moves.commands.is_empty()).then_some(moves.commands));
}

/// A step is taken only if the status says already that it is about to be.
fn announce_or_take(
    name: &'static str,
    progress: String,
    step: Option<Step>,
    pending: Vec<String>,
    status: &ValkeyClusterStatus,
    plan: &mut Plan,
) {
    let next = step.as_ref().map(Step::describe);
    let announced = status
        .orchestration
        .as_ref()
        .filter(|orchestration| orchestration.name == name)
        .and_then(|orchestration| orchestration.step.clone());
    if let Some(step) = step.filter(|_| announced == next) {
        let deed = Deed::normal(step.reason(), format!("{} ({progress})", step.describe()));
        plan.deeds.push(deed.about(step.node()));
        plan.promotions.extend(step.promotes_in());
        plan.stages.extend(step.command().map(|command| vec![command]));
        plan.step = Some(step);
    }
    plan.settling |= next.is_some();
    plan.undertaking = Some(Undertaking { name, progress, next, pending });
}

/// Slots, introductions, copies, and names to strike out.
fn topology_commands(
    desired: &Desired,
    observed: &Observed,
    topology: &Topology<'_>,
    status: &ValkeyClusterStatus,
    in_flight: &BTreeSet<u32>,
    plan: &mut Plan,
) {
    let starts = |node: &&ObservedNode| node.address().is_some() && obstacle::stuck(node).is_none();
    let silent = |node: &ObservedNode| !topology.members.contains_key(&(node.shard, node.index));
    // Also those that the spec no longer asks for: they may have been given slots before it changed.
    let everybody = desired.places().all(|place| topology.members.contains_key(&place))
        && !observed.nodes.values().filter(starts).any(silent);
    if !was_formed(status) && everybody && !topology.unowned().is_empty() {
        plan.stages = formation::form(desired, topology);
        plan.deeds.extend(forming(desired, topology, &plan.stages));
        plan.settling = true;
        return;
    }
    if !was_formed(status) && !everybody {
        // Whoever is introduced early can no longer be given an epoch of its own. Servers that start are looked at closely,
        // those that cannot start are not.
        plan.settling = observed.nodes.values().any(|node| starts(&node));
        plan.stages = formation::claim_early(desired, observed, topology);
        plan.deeds.extend(forming(desired, topology, &plan.stages));
        return;
    }
    if !was_formed(status) {
        let (taken_back, promotions) = formation::take_back(topology, in_flight);
        if !taken_back.is_empty() {
            plan.stages = vec![taken_back];
            plan.promotions = promotions;
            plan.settling = true;
            return;
        }
    }
    let mut healing = heal::Healing::default();
    if was_formed(status) {
        healing = heal::heal(desired, topology, status, in_flight);
    }
    let introductions = formation::introduce(topology);
    let epochs = if was_formed(status) { formation::epochs_of_newcomers(topology) } else { Stage::new() };
    let copies = formation::replicate(topology, was_formed(status));
    let forgotten = formation::forget(topology);
    plan.settling = !healing.stages.is_empty()
        || !in_flight.is_empty()
        || !introductions.is_empty()
        || !copies.is_empty()
        || !topology.is_agreed();
    plan.deeds.extend(healing.deeds);
    plan.promotions = healing.promotions;
    plan.waits = healing.waits;
    plan.stages = healing.stages;
    let stages = [epochs, introductions, copies, forgotten];
    plan.stages.extend(stages.into_iter().filter(|stage| !stage.is_empty()));
}

/// What a user hears when the first slots are given.
fn forming(desired: &Desired, topology: &Topology<'_>, stages: &[Stage]) -> Option<Deed> {
    let (shards, replicas) = (desired.shards, desired.replicas);
    let note = format!("forming a cluster of {shards} shards with {replicas} replicas each");
    (topology.assigned() == 0 && !stages.is_empty()).then(|| Deed::normal("Forming", note))
}

/// Slots that are half moved are finished or closed: at once if they are our own, else when somebody left them behind.
fn settle_open_slots(
    health: &Health<'_>,
    status: &ValkeyClusterStatus,
    left_behind: &BTreeSet<u16>,
    plan: &mut Plan,
) {
    let open = open_slots(health.topology);
    plan.watching = !open.is_empty();
    // While a change goes through the cluster, they are its own.
    let ours = status.orchestration.is_some();
    let settled = open_slots::settle(health, if ours { &open } else { left_behind });
    plan.stages = settled.stages;
    plan.deeds.extend(settled.deeds.into_iter().filter(|_| !ours));
}

/// The cluster has served before: a server without slots is no reason to hand them out again.
pub(super) fn was_formed(status: &ValkeyClusterStatus) -> bool {
    status.condition(ClusterCondition::ClusterFormed).is_some_and(|condition| condition.status == "True")
}

/// While a shard that should have copies has none in sync, nothing may be taken away.
pub(super) fn every_shard_has_a_copy(desired: &Desired, topology: &Topology<'_>) -> bool {
    desired.replicas == 0
        || (0..desired.shards).all(|shard| {
            topology
                .primary(shard)
                .is_some_and(|primary| topology.shard(shard).any(|member| Topology::in_sync(primary, member)))
        })
}
