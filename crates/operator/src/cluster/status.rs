//! What a user reads: status and conditions from what was seen, planned and done. Written once per pass.

use api::ValkeyClusterStatus;
use api::cluster::{
    AclStatus, BudgetStatus, ClusterPhase, Orchestration, ReplicaStatus, ShardStatus, Summary,
};
use api::condition::{self, Assessment, ClusterCondition, ClusterReason, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use valkey::SlotRange;
use valkey::slots::SLOT_COUNT;

use super::act::Outcome;
use super::observe::{Observed, ObservedNode, PodFacts};
use super::obstacle;
use super::plan::{Plan, reason_for, wants_budget, was_formed};
use super::topology::{Place, Topology, Whose};
use super::users::{self, Users};
use super::validate::Desired;
use crate::heartbeats::Agent;
use crate::objects::Collision;
use crate::violation::Violation;

type ClusterAssessment = Assessment<ClusterCondition, ClusterReason>;

fn assess(
    condition: ClusterCondition,
    state: impl Into<State>,
    reason: ClusterReason,
    message: impl Into<String>,
) -> ClusterAssessment {
    Assessment { condition, state: state.into(), reason, message: message.into() }
}

/// Everything that was looked at.
pub(super) struct Seen<'a> {
    pub(super) desired: &'a Desired,
    pub(super) observed: &'a Observed,
    pub(super) topology: &'a Topology<'a>,
    pub(super) users: &'a Users,
}

/// Why the cluster is left as it is.
pub(super) struct Problem {
    pub(super) reason: ClusterReason,
    pub(super) message: String,
}

impl Problem {
    /// A spec that cannot be built.
    pub(super) fn violations(violations: &[Violation]) -> Self {
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        Self { reason: ClusterReason::InvalidSpec, message: list.join("; ") }
    }

    /// What has to happen first.
    fn wait(&self) -> &'static str {
        match self.reason {
            ClusterReason::TlsSecretUnusable => "the Secret of networking.tls must be corrected first",
            _ => "the spec must be corrected first",
        }
    }
}

/// Something is in the way that only the user can mend: what runs is left alone, and so is what was known of it.
pub(super) fn halted(
    problem: &Problem,
    generation: Option<i64>,
    before: &ValkeyClusterStatus,
    now: Timestamp,
) -> ValkeyClusterStatus {
    let fresh = [
        assess(ClusterCondition::Ready, false, problem.reason, &problem.message),
        assess(ClusterCondition::Progressing, false, problem.reason, problem.wait()),
    ];
    let mut conditions = condition::merge(&before.conditions, &fresh, generation, now);
    // What is not assessed without a spec stays as it was: whether the cluster was formed must not be forgotten.
    let kept = before.conditions.iter().filter(|old| !conditions.iter().any(|new| new.type_ == old.type_));
    let kept: Vec<_> = kept.cloned().collect();
    conditions.extend(kept);
    let reason: &'static str = problem.reason.into();
    ValkeyClusterStatus {
        observed_generation: generation,
        phase: Some(ClusterPhase::Error),
        reason: Some(reason.to_owned()),
        message: Some(problem.message.clone()),
        conditions,
        ..before.clone()
    }
}

/// The status after a pass.
pub(super) fn status(
    seen: &Seen<'_>,
    plan: &Plan,
    outcome: &Outcome,
    before: &ValkeyClusterStatus,
    now: Timestamp,
) -> ValkeyClusterStatus {
    let Seen { desired, topology, .. } = *seen;
    let shards = shard_details(seen, before);
    let formed = was_formed(before) || is_formed(seen);
    let ready = ready(seen, plan, outcome, &shards, formed);
    let is_ready = ready.state == State::True;
    let phase = phase(&ready, seen, formed, plan, before);
    let fresh = vec![
        progressing(plan, outcome, is_ready),
        degraded(&ready, phase),
        cluster_formed(formed),
        slots_assigned(topology),
        users_applied(seen, plan),
        roll_blocked(plan),
        auth_fallback(topology),
        configuration(seen),
    ];
    let wanted = i32::try_from(desired.shards).unwrap_or(i32::MAX);
    let ready_shards = shards.iter().filter(|shard| shard.ready && shard.index < wanted).count();
    let reason: &'static str = ready.reason.into();
    let message = ready.message.clone();
    let all: Vec<_> = std::iter::once(ready).chain(fresh).chain(sidecars_connected(seen, before)).collect();
    let generation = desired.identity.generation;
    ValkeyClusterStatus {
        observed_generation: generation,
        phase: Some(phase),
        reason: Some(reason.to_owned()),
        message: Some(message),
        shards: count(shards.iter().filter(|shard| !shard.slots.is_empty()).count()),
        ready_shards: count(ready_shards),
        selector: Some(selector(desired)),
        summary: Some(Summary {
            shards: format!("{ready_shards}/{}", desired.shards),
            nodes: format!("{}/{}", ready_nodes(seen), desired.node_count()),
            slots: format!("{}/{SLOT_COUNT}", topology.served()),
        }),
        version: version(topology),
        images: Some(desired.pinned.clone()),
        shard_details: shards,
        orchestration: orchestration(plan, before, now),
        pod_disruption_budget: wants_budget(desired).then_some(BudgetStatus { mode: plan.orders.budget }),
        acl: Some(AclStatus {
            synced: plan.users.is_empty() && users::arrived_everywhere(seen.users, topology),
            revision: seen.users.file.as_ref().map(|file| file.revision.clone()),
            // Only what is in the Secret was done: this pass may have failed to write it.
            password_rotation: seen.users.rotated.clone().or_else(|| before.acl.clone()?.password_rotation),
        }),
        conditions: condition::merge(&before.conditions, &all, generation, now),
    }
}

/// The change that goes through the cluster, with the step that comes next: written before it is taken.
fn orchestration(plan: &Plan, before: &ValkeyClusterStatus, now: Timestamp) -> Option<Orchestration> {
    let Some(undertaking) = &plan.undertaking else {
        // Healing interrupts a change, and does not end it.
        let interrupted = !plan.stages.is_empty() || plan.settling;
        return before.orchestration.clone().filter(|_| interrupted);
    };
    let same = before.orchestration.as_ref().filter(|known| known.name == undertaking.name);
    Some(Orchestration {
        name: undertaking.name.to_owned(),
        phase: Some(undertaking.progress.clone()),
        step: undertaking.next.clone(),
        started_at: same.and_then(|known| known.started_at.clone()).or(Some(Time(now))),
        last_action: plan
            .step
            .as_ref()
            .map(super::plan::Step::describe)
            .or_else(|| same.and_then(|known| known.last_action.clone())),
        target: None,
        pending: undertaking.pending.clone(),
    })
}

fn roll_blocked(plan: &Plan) -> ClusterAssessment {
    let of =
        |state: bool, reason, message: &str| assess(ClusterCondition::RollBlocked, state, reason, message);
    match (&plan.blocked, &plan.undertaking) {
        (Some(blocked), _) => of(true, blocked.reason(), blocked.message()),
        (None, Some(_)) => of(false, ClusterReason::Rolling, "nothing holds the change back"),
        (None, None) => of(false, ClusterReason::NotRolling, "nothing is to be restarted"),
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn selector(desired: &Desired) -> String {
    let labels = desired.identity.selector();
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// The oldest version among the servers: what the cluster as a whole can do.
fn version(topology: &Topology<'_>) -> Option<String> {
    topology
        .members
        .values()
        .filter_map(|member| member.facts.version)
        .min()
        .map(|version| version.to_string())
}

fn shard_details(seen: &Seen<'_>, before: &ValkeyClusterStatus) -> Vec<ShardStatus> {
    let Seen { desired, observed, .. } = *seen;
    let last = observed.nodes.keys().map(|(shard, _)| shard + 1).max().unwrap_or_default();
    (0..last.max(desired.shards)).map(|shard| shard_status(shard, seen, before)).collect()
}

/// The slots of a shard. Those of an owner who is gone stay its own until somebody has them: whoever gives them out
/// again must know whose they were.
fn slots_of_shard(shard: u32, topology: &Topology<'_>, before: &ValkeyClusterStatus) -> String {
    let shown = |ranges: &[SlotRange]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    if let Some(primary) = topology.primary(shard) {
        return shown(topology.slots_of(primary.id()));
    }
    let absent = topology.owning_ids().into_iter().find(|id| {
        matches!(topology.identities.get(id), Some(Whose::Former(place) | Whose::Silent(place)) if place.0 == shard)
    });
    if let Some(absent) = absent {
        return shown(topology.slots_of(absent));
    }
    let known = before.shard_details.iter().find(|known| u32::try_from(known.index) == Ok(shard));
    let known: Vec<SlotRange> =
        known.iter().flat_map(|known| known.slots.split(',').filter_map(SlotRange::parse)).collect();
    let is_free = |range: &SlotRange| {
        topology.unowned().iter().any(|gap| gap.contains(range.start()) && gap.contains(range.end()))
    };
    if known.iter().all(is_free) { shown(&known) } else { String::new() }
}

fn shard_status(shard: u32, seen: &Seen<'_>, before: &ValkeyClusterStatus) -> ShardStatus {
    let topology = seen.topology;
    let primary = topology.primary(shard);
    let replicas: Vec<ReplicaStatus> = seen
        .observed
        .nodes
        .values()
        .filter(|node| {
            node.shard == shard && primary.is_none_or(|primary| primary.place != (shard, node.index))
        })
        .map(|node| ReplicaStatus {
            node: node.name().to_owned(),
            in_sync: primary.is_some_and(|primary| {
                let member = topology.members.get(&(shard, node.index));
                member.is_some_and(|member| Topology::in_sync(primary, member))
            }),
        })
        .collect();
    let copies = replicas.iter().filter(|replica| replica.in_sync).count();
    let wanted = usize::try_from(seen.desired.replicas).unwrap_or(usize::MAX);
    ShardStatus {
        index: i32::try_from(shard).unwrap_or(i32::MAX),
        slots: slots_of_shard(shard, topology, before),
        ready: primary.is_some_and(|primary| is_ready(seen, primary.place)) && copies >= wanted,
        primary: primary.map(|primary| primary.name.to_owned()),
        replicas,
    }
}

fn is_ready(seen: &Seen<'_>, place: Place) -> bool {
    let node = seen.observed.nodes.get(&place);
    node.and_then(|node| node.pod.as_ref()).is_some_and(PodFacts::serves)
}

/// Nodes that serve or follow, and whose pods say so too.
fn ready_nodes(seen: &Seen<'_>) -> usize {
    seen.desired
        .places()
        .filter(|place| is_ready(seen, *place))
        .filter(|place| {
            let (Some(primary), Some(member)) =
                (seen.topology.primary(place.0), seen.topology.members.get(place))
            else {
                return false;
            };
            primary.place == *place || Topology::in_sync(primary, member)
        })
        .count()
}

fn is_formed(seen: &Seen<'_>) -> bool {
    let everybody = seen.desired.places().all(|place| seen.topology.members.contains_key(&place));
    everybody && seen.topology.served() == usize::from(SLOT_COUNT) && seen.topology.is_agreed()
}

fn ready(
    seen: &Seen<'_>,
    plan: &Plan,
    outcome: &Outcome,
    shards: &[ShardStatus],
    formed: bool,
) -> ClusterAssessment {
    let no = |reason, message: String| assess(ClusterCondition::Ready, false, reason, message);
    let Seen { desired, observed, topology, .. } = *seen;
    if let Some(collision) = outcome.collision.as_ref().or_else(|| observed.collisions.first()) {
        return no(ClusterReason::NameCollision, collision_message(collision));
    }
    if let Some(words) = outcome.error.as_ref().and_then(kit::apply::Error::refusal) {
        return no(ClusterReason::ApplyRefused, words.to_owned());
    }
    if let Some(wait) = plan.waits.first() {
        return no(ClusterReason::WaitingForUser, wait.clone());
    }
    let missing: Vec<Place> = desired.places().filter(|place| !observed.nodes.contains_key(place)).collect();
    if !missing.is_empty() {
        return no(ClusterReason::NodesMissing, format!("{} nodes are still to be made", missing.len()));
    }
    let served = topology.served();
    if formed && served < usize::from(SLOT_COUNT) {
        let message = format!("{served} of {SLOT_COUNT} slots are served{}", silent(seen));
        return no(ClusterReason::SlotsUncovered, message);
    }
    if !topology.silent.is_empty() {
        return no(ClusterReason::NodesNotReachable, unreachable(seen));
    }
    if !formed || served < usize::from(SLOT_COUNT) {
        return no(ClusterReason::Forming, "the servers are being joined into a cluster".to_owned());
    }
    if let Some(shard) = shards.iter().find(|shard| shard.replicas.iter().any(|replica| !replica.in_sync)) {
        let behind: Vec<&str> = shard
            .replicas
            .iter()
            .filter(|replica| !replica.in_sync)
            .map(|replica| replica.node.as_str())
            .collect();
        let message = format!("{} of shard {} not in sync yet", behind.join(", "), shard.index);
        return no(ClusterReason::ReplicasNotInSync, message);
    }
    if !topology.is_agreed() {
        return no(ClusterReason::Forming, "the servers do not all know each other yet".to_owned());
    }
    let nodes = ready_nodes(seen);
    let wanted = usize::try_from(desired.node_count()).unwrap_or(usize::MAX);
    if nodes < wanted {
        let message = format!("{nodes} of {wanted} pods are ready");
        return no(ClusterReason::NodesNotReachable, message);
    }
    let message = format!("{} shards serve all {SLOT_COUNT} slots", desired.shards);
    assess(ClusterCondition::Ready, true, ClusterReason::ClusterHealthy, message)
}

fn collision_message(collision: &Collision) -> String {
    let Collision { kind, name, holder } = collision;
    format!(
        "{} {name} belongs to {holder}; remove that object, or give this cluster another name",
        kind.name()
    )
}

fn silent(seen: &Seen<'_>) -> String {
    if seen.topology.silent.is_empty() { String::new() } else { format!("; {}", unreachable(seen)) }
}

/// Names, and what keeps the first of them that will not come by waiting. What else a pod waits for is in its node's
/// conditions, and would make this line flicker.
fn unreachable(seen: &Seen<'_>) -> String {
    let nodes: Vec<&ObservedNode> =
        seen.topology.silent.iter().filter_map(|place| seen.observed.nodes.get(place)).collect();
    let names: Vec<&str> = nodes.iter().map(|node| node.name()).collect();
    let obstacle = nodes.iter().find_map(|node| Some((node.name(), obstacle::words(node)?)));
    match (names.as_slice(), obstacle) {
        ([one], None) => format!("the server of {one} does not answer"),
        ([one], Some((_, words))) => format!("the server of {one} does not answer: {words}"),
        (many, None) => format!("the servers of {} nodes do not answer: {}", many.len(), many.join(", ")),
        (many, Some((name, words))) => {
            let names = many.join(", ");
            format!("the servers of {} nodes do not answer: {names}; {name}: {words}", many.len())
        }
    }
}

fn phase(
    ready: &ClusterAssessment,
    seen: &Seen<'_>,
    formed: bool,
    plan: &Plan,
    before: &ValkeyClusterStatus,
) -> ClusterPhase {
    let changing = plan.undertaking.is_some() || before.orchestration.is_some();
    match ready.reason {
        _ if ready.state == State::True && plan.undertaking.is_none() => ClusterPhase::Ready,
        _ if ready.state == State::True => ClusterPhase::Updating,
        ClusterReason::NameCollision
        | ClusterReason::ApplyRefused
        | ClusterReason::InvalidSpec
        | ClusterReason::WaitingForUser => ClusterPhase::Error,
        _ if !formed && seen.observed.nodes.is_empty() => ClusterPhase::Pending,
        _ if !formed || !served_before(before) => ClusterPhase::Creating,
        _ if changing && seen.topology.served() == usize::from(SLOT_COUNT) => ClusterPhase::Updating,
        _ => ClusterPhase::Degraded,
    }
}

/// Whether the cluster was ready at any time.
fn served_before(before: &ValkeyClusterStatus) -> bool {
    !matches!(before.phase, None | Some(ClusterPhase::Pending | ClusterPhase::Creating))
}

fn progressing(plan: &Plan, outcome: &Outcome, is_ready: bool) -> ClusterAssessment {
    if let Some(undertaking) = &plan.undertaking {
        let next = undertaking.next.as_deref().unwrap_or("waiting for the servers");
        let message = format!("{}: {}, {next}", undertaking.name, undertaking.progress);
        return assess(ClusterCondition::Progressing, true, reason_for(undertaking.name), message);
    }
    let busy = plan.settling || !outcome.written.is_empty() || !plan.stages.is_empty();
    match (is_ready, busy) {
        (true, false) => assess(
            ClusterCondition::Progressing,
            false,
            ClusterReason::Stable,
            "everything is as the spec asks",
        ),
        _ => assess(
            ClusterCondition::Progressing,
            true,
            ClusterReason::Reconciling,
            "the operator is bringing the cluster in line with its spec",
        ),
    }
}

/// What is missing because a change takes it away, or because it was never there yet, is no alarm.
fn degraded(ready: &ClusterAssessment, phase: ClusterPhase) -> ClusterAssessment {
    if phase == ClusterPhase::Degraded {
        return assess(ClusterCondition::Degraded, true, ready.reason, ready.message.clone());
    }
    assess(ClusterCondition::Degraded, false, ClusterReason::ClusterHealthy, "nothing is missing")
}

fn cluster_formed(formed: bool) -> ClusterAssessment {
    if formed {
        assess(ClusterCondition::ClusterFormed, true, ClusterReason::Formed, "the servers are one cluster")
    } else {
        assess(
            ClusterCondition::ClusterFormed,
            false,
            ClusterReason::NotFormed,
            "the servers have not been joined into one cluster yet",
        )
    }
}

fn slots_assigned(topology: &Topology<'_>) -> ClusterAssessment {
    let assigned = topology.assigned();
    let whole = assigned == usize::from(SLOT_COUNT);
    let reason = if whole { ClusterReason::AllSlotsAssigned } else { ClusterReason::SlotsUnassigned };
    assess(
        ClusterCondition::SlotsAssigned,
        whole,
        reason,
        format!("{assigned} of {SLOT_COUNT} slots have an owner"),
    )
}

fn users_applied(seen: &Seen<'_>, plan: &Plan) -> ClusterAssessment {
    let of =
        |state: bool, reason, message: String| assess(ClusterCondition::UsersApplied, state, reason, message);
    if let Some(problem) = seen.users.problems.first() {
        return of(false, problem.reason, problem.message.clone());
    }
    if !plan.users.is_empty() {
        let message = format!("{} nodes are getting other users", plan.users.len());
        return of(false, ClusterReason::UsersPending, message);
    }
    if seen.topology.members.is_empty() {
        return of(false, ClusterReason::UsersPending, "no server has answered yet".to_owned());
    }
    if !users::arrived_everywhere(seen.users, seen.topology) {
        let message =
            "every server has the users; the file it would start with is still on its way to some pods";
        return of(true, ClusterReason::UsersPropagating, message.to_owned());
    }
    of(true, ClusterReason::UsersInStep, "every server has the users of the spec".to_owned())
}

fn auth_fallback(topology: &Topology<'_>) -> ClusterAssessment {
    let names: Vec<&str> = topology
        .members
        .values()
        .filter(|member| member.facts.by_fallback)
        .map(|member| member.name)
        .collect();
    if names.is_empty() {
        return assess(
            ClusterCondition::AuthFallback,
            false,
            ClusterReason::NoFallback,
            "the operator uses its own user everywhere",
        );
    }
    let message =
        format!("the operator's password was refused and the default user let it in: {}", names.join(", "));
    assess(ClusterCondition::AuthFallback, true, ClusterReason::DefaultUserUsed, message)
}

/// A condition as it was.
fn repeated(known: &Condition) -> Option<ClusterAssessment> {
    use strum::IntoEnumIterator as _;
    let is_known = |reason: &ClusterReason| <&'static str>::from(*reason) == known.reason;
    let state = match known.status.as_str() {
        "True" => State::True,
        "False" => State::False,
        _ => State::Unknown,
    };
    let reason = ClusterReason::iter().find(is_known)?;
    Some(assess(ClusterCondition::SidecarsConnected, state, reason, known.message.clone()))
}

/// Only of pods that serve: those that start or end say so elsewhere.
fn sidecars_connected(seen: &Seen<'_>, before: &ValkeyClusterStatus) -> Option<ClusterAssessment> {
    seen.desired.agent.operator.as_ref()?;
    let of = |state: State, reason, message: String| {
        Some(assess(ClusterCondition::SidecarsConnected, state, reason, message))
    };
    let serving =
        || seen.observed.nodes.values().filter(|node| node.pod.as_ref().is_some_and(PodFacts::serves));
    if serving().next().is_none() {
        return of(State::Unknown, ClusterReason::SidecarsPending, "no pod serves yet".to_owned());
    }
    // An operator that has just begun to lead knows only what the one before it wrote.
    let known = before.condition(ClusterCondition::SidecarsConnected);
    if let Some(known) = known.filter(|_| serving().any(|node| node.agent == Agent::Unknown)) {
        return repeated(known);
    }
    let names = |wanted: &dyn Fn(Agent) -> bool| {
        serving().filter(|node| wanted(node.agent)).map(ObservedNode::name).collect::<Vec<_>>().join(", ")
    };
    let silent = names(&|agent| matches!(agent, Agent::Silent | Agent::Unknown));
    if !silent.is_empty() {
        let message = format!("not heard of late: the agents of {silent}; their servers are asked instead");
        return of(State::False, ClusterReason::SidecarsSilent, message);
    }
    let absent = names(&|agent| agent == Agent::Absent);
    if !absent.is_empty() {
        let message = format!("without an agent until they are restarted next: {absent}");
        return of(State::False, ClusterReason::SidecarsMissing, message);
    }
    of(State::True, ClusterReason::SidecarsHeard, "the agent beside every server is heard".to_owned())
}

fn configuration(seen: &Seen<'_>) -> ClusterAssessment {
    let ignored = &seen.desired.ignored_directives;
    let refused = seen.observed.nodes.values().find_map(|node| {
        let words = obstacle::refused_directive(node)?;
        Some(format!("the server of {} refused a directive and keeps what it has: {words}", node.name()))
    });
    let ignored = (!ignored.is_empty())
        .then(|| format!("decided by the operator and therefore ignored: {}", ignored.join(", ")));
    let reason = match (&refused, &ignored) {
        (Some(_), _) => ClusterReason::DirectiveRefused,
        (None, Some(_)) => ClusterReason::DirectiveIgnored,
        (None, None) => {
            return assess(
                ClusterCondition::ConfigurationWarning,
                false,
                ClusterReason::ConfigurationClean,
                "every directive of the spec is used",
            );
        }
    };
    let message = [refused, ignored].into_iter().flatten().collect::<Vec<_>>().join("; ");
    assess(ClusterCondition::ConfigurationWarning, true, reason, message)
}
