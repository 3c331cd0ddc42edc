//! What a user reads: status and conditions from what was seen, planned and done. Written once per pass.

use api::ValkeyNodeStatus;
use api::condition::{self, Assessment, NodeCondition, NodeReason, State};
use api::node::WorkloadType;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Resource as _;

use super::act::{ConfigOutcome, Outcome};
use super::diagnose::{Diagnosis, diagnose};
use super::observe::{Observed, Workload};
use super::plan::{LiveConfig, Plan, Roll, config_digest, requested_size, workload_revision};
use super::server::ServerView;
use super::validate::{Desired, Storage};
use crate::violation::Violation;

type NodeAssessment = Assessment<NodeCondition, NodeReason>;

fn assess(
    condition: NodeCondition,
    state: impl Into<State>,
    reason: NodeReason,
    message: impl Into<String>,
) -> NodeAssessment {
    Assessment { condition, state: state.into(), reason, message: message.into() }
}

/// A spec that cannot be built: what runs is left alone, and so is what was known of it.
pub(super) fn invalid(
    violations: &[Violation],
    generation: Option<i64>,
    before: &ValkeyNodeStatus,
    now: Timestamp,
) -> ValkeyNodeStatus {
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let message = list.join("; ");
    let fresh = [
        assess(NodeCondition::Ready, false, NodeReason::InvalidSpec, &message),
        assess(NodeCondition::Progressing, false, NodeReason::Blocked, "the spec must be corrected first"),
        assess(NodeCondition::ResourcesReady, false, NodeReason::InvalidSpec, &message),
    ];
    ValkeyNodeStatus {
        observed_generation: generation,
        ready: false,
        observed_role: None,
        observed_replica_of: None,
        conditions: condition::merge(&before.conditions, &fresh, generation, now),
        ..before.clone()
    }
}

/// The status after a pass.
pub(super) fn status(
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
    outcome: &Outcome,
    before: &ValkeyNodeStatus,
    now: Timestamp,
) -> ValkeyNodeStatus {
    let trouble = pod_trouble(desired, observed, before);
    let ready = ready(observed, trouble.as_ref());
    let is_ready = ready.state == State::True;
    let claim = claim_condition(desired, observed);
    let resources = resources(desired, observed, plan, outcome, trouble.as_ref(), claim.as_ref());
    let progressing = progressing(plan, outcome, observed, trouble.as_ref(), claim.as_ref(), &resources);
    let mut fresh = vec![ready, progressing, resources];
    if desired.workload_type == WorkloadType::StatefulSet {
        fresh.push(stateful_set(observed, trouble.as_ref()));
    }
    fresh.extend(claim);
    fresh.push(live_config(plan, outcome));
    fresh.push(roll_pending(&plan.roll));
    let facts = match &observed.server {
        ServerView::Answering(facts) if is_ready => Some(facts),
        _ => None,
    };
    let generation = desired.identity.generation;
    let pod = observed.pod.as_deref();
    ValkeyNodeStatus {
        observed_generation: generation,
        ready: is_ready,
        pod_name: pod.and_then(|pod| pod.meta().name.clone()),
        pod_ip: pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.pod_ip.clone()),
        pvc_name: desired.claim_name(),
        service_name: Some(desired.identity.workload_name()),
        observed_role: facts.and_then(|facts| facts.role),
        observed_replica_of: observed.replica_of.clone().filter(|_| is_ready),
        server_version: facts.and_then(|facts| facts.version.clone()),
        workload_revision: observed.workload.as_ref().and_then(workload_revision).map(ToOwned::to_owned),
        pending_workload_revision: plan.roll.pending().map(ToOwned::to_owned),
        running_config: running_config(plan, outcome, before),
        refused_config: refused_config(desired, plan, outcome, before),
        conditions: condition::merge(&before.conditions, &fresh, generation, now),
    }
}

fn pod_trouble(desired: &Desired, observed: &Observed, before: &ValkeyNodeStatus) -> Option<Diagnosis> {
    let Some(pod) = observed.pod.as_deref() else {
        return Some(match &observed.pod_creation_failure {
            Some(message) => Diagnosis {
                reason: NodeReason::PodCreationFailed,
                message: format!(
                    "the pod of {} cannot be created: {message}",
                    desired.identity.workload_name()
                ),
                failed: true,
            },
            None => Diagnosis {
                reason: NodeReason::PodMissing,
                message: "there is no pod yet".to_owned(),
                failed: false,
            },
        });
    };
    // "Not ready any more" speaks of this pod, not of one that had the node's name before.
    let same_pod = before.pod_name == pod.meta().name && before.pod_ip.is_some();
    let before_ready = before.condition(NodeCondition::Ready).filter(|_| same_pod);
    let was = |reason: NodeReason| {
        before_ready.is_some_and(|condition| condition.reason == Into::<&str>::into(reason))
    };
    let trouble = diagnose(pod, same_pod && (before.ready || was(NodeReason::PodNotReady)))?;
    // Between two crashes a server runs for a moment: that is no news.
    match before_ready {
        Some(known) if was(NodeReason::CrashLooping) && trouble.reason == NodeReason::PodStarting => {
            Some(Diagnosis { reason: NodeReason::CrashLooping, message: known.message.clone(), failed: true })
        }
        _ => Some(trouble),
    }
}

fn ready(observed: &Observed, trouble: Option<&Diagnosis>) -> NodeAssessment {
    let of = |state: bool, reason, message: String| assess(NodeCondition::Ready, state, reason, message);
    if let Some(trouble) = trouble {
        return of(false, trouble.reason, trouble.message.clone());
    }
    match &observed.server {
        ServerView::Answering(facts) if facts.supported => {
            of(true, NodeReason::PodRunning, "the pod is ready and its server answers".to_owned())
        }
        ServerView::Answering(facts) => of(
            true,
            NodeReason::UnsupportedVersion,
            format!(
                "the server answers, but its version ({}) is older than 8.1 or not known",
                facts.version.as_deref().unwrap_or("none reported")
            ),
        ),
        ServerView::NotAsked => of(false, NodeReason::PodStarting, "the pod has no address yet".to_owned()),
        ServerView::AccessUnavailable(why) => of(false, NodeReason::AccessUnavailable, why.clone()),
        ServerView::NotAuthenticated(why) => of(false, NodeReason::AuthenticationFailed, why.clone()),
        ServerView::NotTrusted(why) => of(false, NodeReason::TlsFailed, why.clone()),
        ServerView::Loading => {
            of(false, NodeReason::ServerLoading, "the server is loading its data from disk".to_owned())
        }
        ServerView::Busy(why) => of(false, NodeReason::ServerBusy, why.clone()),
        ServerView::Unreachable(why) => of(false, NodeReason::ServerUnreachable, why.clone()),
    }
}

fn stateful_set(observed: &Observed, trouble: Option<&Diagnosis>) -> NodeAssessment {
    let available = match &observed.workload {
        Some(Workload::StatefulSet(set)) => {
            set.status.as_ref().is_some_and(|status| status.ready_replicas.unwrap_or(0) >= 1)
        }
        _ => false,
    };
    if available {
        return assess(
            NodeCondition::StatefulSetReady,
            true,
            NodeReason::ReplicaAvailable,
            "1/1 ready replicas",
        );
    }
    let message = match trouble {
        Some(trouble) => format!("0/1 ready replicas: {}", trouble.message),
        None => "0/1 ready replicas".to_owned(),
    };
    assess(NodeCondition::StatefulSetReady, false, NodeReason::ReplicaUnavailable, message)
}

fn claim_condition(desired: &Desired, observed: &Observed) -> Option<NodeAssessment> {
    let of = |state: bool, reason, message: String| {
        Some(assess(NodeCondition::PersistentVolumeClaimReady, state, reason, message))
    };
    let name = desired.claim_name()?;
    if let Some(why) = &observed.claim_unreadable {
        let condition = NodeCondition::PersistentVolumeClaimReady;
        return Some(assess(condition, State::Unknown, NodeReason::NotObserved, why.clone()));
    }
    let Some(claim) = observed.claim.as_deref() else {
        return match desired.storage {
            Storage::External(_) => {
                of(false, NodeReason::ClaimNotFound, format!("claim {name} does not exist"))
            }
            _ => of(false, NodeReason::ClaimPending, format!("claim {name} is being created")),
        };
    };
    if claim.meta().deletion_timestamp.is_some() {
        let message = format!("claim {name} is being deleted and goes away with its pod");
        return of(false, NodeReason::ClaimTerminating, message);
    }
    match claim.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Lost") => of(false, NodeReason::ClaimLost, format!("the volume of claim {name} is gone")),
        Some("Bound") => match growing(claim) {
            Some(message) => of(false, NodeReason::Resizing, message),
            None => of(
                true,
                NodeReason::Bound,
                format!("claim {name} is bound, {}", capacity(claim).unwrap_or("size not known")),
            ),
        },
        _ => of(false, NodeReason::ClaimPending, format!("claim {name} waits for a volume")),
    }
}

fn capacity(claim: &PersistentVolumeClaim) -> Option<&str> {
    let capacity = claim.status.as_ref()?.capacity.as_ref()?;
    capacity.get("storage").map(|quantity| quantity.0.as_str())
}

fn growing(claim: &PersistentVolumeClaim) -> Option<String> {
    let (wanted, there) = (requested_size(claim)?, capacity(claim)?);
    if kit::quantity::milli(wanted) <= kit::quantity::milli(there) {
        return None;
    }
    let trouble = claim
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .filter_map(|condition| condition.message.as_deref())
        .find(|message| !message.is_empty())
        .map(|message| format!(": {message}"))
        .unwrap_or_default();
    Some(format!("growing from {there} to {wanted}{trouble}"))
}

fn resources(
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
    outcome: &Outcome,
    trouble: Option<&Diagnosis>,
    claim: Option<&NodeAssessment>,
) -> NodeAssessment {
    let of =
        |state: bool, reason, message: String| assess(NodeCondition::ResourcesReady, state, reason, message);
    if let Some(taken) = observed.collisions.first().or(outcome.collision.as_ref()) {
        let hint = match (taken.kind, &desired.storage) {
            (super::build::Kind::PersistentVolumeClaim, Storage::Own(_)) => {
                "; to use it as it is, set persistence.mode: external and existingClaim"
            }
            _ => "; rename this node, or remove that object",
        };
        let message = format!("{} {} belongs to {}{hint}", taken.kind.name(), taken.name, taken.holder);
        return of(false, NodeReason::NameCollision, message);
    }
    if let Some(words) = outcome.error.as_ref().and_then(kit::apply::Error::refusal) {
        return of(false, NodeReason::ApplyRefused, words.to_owned());
    }
    if let Some(error) = &outcome.error {
        return of(false, NodeReason::NotHealthy, kit::telemetry::chain(error));
    }
    if let Some(written) = outcome.written.first() {
        return of(false, NodeReason::Applying, format!("{written} was just written"));
    }
    if let Some(claim) =
        claim.filter(|claim| claim.state != State::True && claim.reason != NodeReason::Resizing)
    {
        return of(false, NodeReason::NotHealthy, claim.message.clone());
    }
    if let Some(trouble) = trouble {
        return of(false, NodeReason::NotHealthy, trouble.message.clone());
    }
    if observed.workload.is_none() || !plan.writes.is_empty() {
        return of(false, NodeReason::NotHealthy, "objects are being created".to_owned());
    }
    of(true, NodeReason::AllHealthy, "workload, Service, configuration and volume are as wanted".to_owned())
}

fn progressing(
    plan: &Plan,
    outcome: &Outcome,
    observed: &Observed,
    trouble: Option<&Diagnosis>,
    claim: Option<&NodeAssessment>,
    resources: &NodeAssessment,
) -> NodeAssessment {
    let of = |state: bool, reason, message: &str| assess(NodeCondition::Progressing, state, reason, message);
    if matches!(resources.reason, NodeReason::NameCollision | NodeReason::ApplyRefused) {
        return of(false, NodeReason::Blocked, "something must be corrected first: see ResourcesReady");
    }
    if let Some(because) = outcome.pod_deleted {
        return of(true, NodeReason::Applying, &format!("the pod is being replaced: {because}"));
    }
    if let Some(written) = outcome.written.first() {
        return of(true, NodeReason::Applying, &format!("{written} was just written"));
    }
    if let Some(trouble) = trouble.filter(|trouble| trouble.failed) {
        return of(false, NodeReason::Blocked, &trouble.message);
    }
    if let Some(claim) = claim.filter(|claim| claim.state != State::True) {
        return of(true, NodeReason::WaitingForVolume, &claim.message);
    }
    if let Some(trouble) = trouble {
        return of(true, NodeReason::WaitingForPod, &trouble.message);
    }
    match (&plan.roll, &observed.server) {
        (Roll::Rolling { revision }, _) => {
            of(true, NodeReason::WaitingForPod, &format!("the pod is being replaced by revision {revision}"))
        }
        (Roll::WaitsForOwner { revision }, _) => of(
            true,
            NodeReason::WaitingForAuthorisation,
            &format!("revision {revision} waits for the owner to set spec.workloadRevision"),
        ),
        (Roll::WaitsForDeletion { revision }, _) => of(
            true,
            NodeReason::WaitingForPodDeletion,
            &format!("revision {revision} takes effect when the pod is deleted"),
        ),
        (Roll::UpToDate, ServerView::Answering(_)) => {
            of(false, NodeReason::Stable, "everything is as the spec asks")
        }
        (Roll::UpToDate, ServerView::Loading) => {
            of(true, NodeReason::ServerLoading, "the server is loading its data")
        }
        (Roll::UpToDate, _) => of(false, NodeReason::Blocked, "the server cannot be reached: see Ready"),
    }
}

fn live_config(plan: &Plan, outcome: &Outcome) -> NodeAssessment {
    let of = |state: State, reason, message: String| {
        assess(NodeCondition::LiveConfigApplied, state, reason, message)
    };
    match (&outcome.config, &plan.config.live) {
        (ConfigOutcome::Refused(words), _)
        | (_, LiveConfig::Refused(words) | LiveConfig::RefusedBefore(words)) => {
            of(State::False, NodeReason::ServerRefused, words.clone())
        }
        (ConfigOutcome::Failed(why), _) => of(State::Unknown, NodeReason::NotObserved, why.clone()),
        (_, LiveConfig::NotObserved) => {
            of(State::Unknown, NodeReason::NotObserved, "the server could not be asked yet".to_owned())
        }
        (_, LiveConfig::Deferred) => of(
            State::False,
            NodeReason::RestartRequired,
            "the directives are for another image and take effect when it starts".to_owned(),
        ),
        (_, LiveConfig::Settled(_) | LiveConfig::Set(..)) if plan.config.awaiting_restart.is_empty() => {
            of(State::True, NodeReason::Applied, "the server has every directive of the spec".to_owned())
        }
        _ => of(
            State::False,
            NodeReason::RestartRequired,
            format!(
                "these directives take effect when the server starts again: {}",
                plan.config.awaiting_restart.join(", ")
            ),
        ),
    }
}

fn roll_pending(roll: &Roll) -> NodeAssessment {
    let of = |state: bool, reason, message: String| {
        assess(NodeCondition::WorkloadRollPending, state, reason, message)
    };
    match roll {
        Roll::UpToDate => of(false, NodeReason::UpToDate, "the pod runs what the spec asks for".to_owned()),
        Roll::WaitsForOwner { revision } => of(
            true,
            NodeReason::WaitingForAuthorisation,
            format!("revision {revision} waits for the owner to set spec.workloadRevision"),
        ),
        Roll::WaitsForDeletion { revision } => of(
            true,
            NodeReason::WaitingForPodDeletion,
            format!("revision {revision} takes effect when the pod is deleted"),
        ),
        Roll::Rolling { revision } => {
            of(true, NodeReason::Applying, format!("the pod is being replaced by revision {revision}"))
        }
    }
}

fn refused_config(
    desired: &Desired,
    plan: &Plan,
    outcome: &Outcome,
    before: &ValkeyNodeStatus,
) -> Option<String> {
    match (&plan.config.live, &outcome.config) {
        (LiveConfig::Refused(_) | LiveConfig::RefusedBefore(_), _) | (_, ConfigOutcome::Refused(_)) => {
            Some(config_digest(desired))
        }
        (LiveConfig::Settled(_), _) | (_, ConfigOutcome::Accepted) => None,
        _ => before.refused_config.clone(),
    }
}

fn running_config(
    plan: &Plan,
    outcome: &Outcome,
    before: &ValkeyNodeStatus,
) -> Option<api::node::RunningConfig> {
    match (&plan.config.live, &outcome.config) {
        (LiveConfig::Settled(running), _) | (LiveConfig::Set(_, running), ConfigOutcome::Accepted) => {
            Some(running.clone())
        }
        // What this run was asked in vain is not asked again.
        (LiveConfig::Set(_, running), ConfigOutcome::Refused(_)) => {
            let known = before.running_config.clone()?;
            Some(api::node::RunningConfig { run: running.run.clone(), ..known })
        }
        _ => before.running_config.clone(),
    }
}
