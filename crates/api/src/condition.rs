//! Condition types and reasons as enums, and the one way to turn them into `metav1.Condition`s.
//!
//! The doc comments of the variants are the user's documentation: `docs/conditions.md` is generated from them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use strum::{EnumIter, EnumMessage, IntoStaticStr};

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
pub enum State {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It could not be found out.
    Unknown,
}

impl From<bool> for State {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// Conditions of a ValkeyNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, EnumMessage, IntoStaticStr)]
pub enum NodeCondition {
    /// The pod is ready and its server answers commands.
    Ready,
    /// The operator is working towards the spec, or waiting for something that should happen by itself.
    Progressing,
    /// The workload, the Service, the configuration and the volume are as wanted and healthy.
    ResourcesReady,
    /// The StatefulSet has its one replica ready. Only present with `workloadType: StatefulSet`.
    StatefulSetReady,
    /// The volume claim is bound and has the requested size. Only present with persistence.
    PersistentVolumeClaimReady,
    /// The running server works with the directives of `spec.config`.
    LiveConfigApplied,
    /// The pod runs an older template than the spec asks for: it is being replaced, or waits for its owner
    /// (`spec.workloadRevision`) or for its deletion (`updateStrategy: OnDelete`).
    WorkloadRollPending,
}

/// Why a condition of a ValkeyNode has its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, EnumMessage, IntoStaticStr)]
pub enum NodeReason {
    /// The pod runs, its readiness probe passes and the server answers.
    PodRunning,
    /// There is no pod yet, or it was just deleted; its workload will make one.
    PodMissing,
    /// The pod exists but is not ready yet; the message says how far it is.
    PodStarting,
    /// The pod was ready and is not any more.
    PodNotReady,
    /// The pod is being deleted.
    PodTerminating,
    /// No machine can take the pod; the message is the scheduler's.
    Unschedulable,
    /// The image cannot be pulled, or its name is not valid; the message is the container runtime's.
    ImagePullFailed,
    /// The server's container ends again and again; the message has its exit code and last words.
    CrashLooping,
    /// The container cannot be created, for example because a Secret or ConfigMap it names is missing.
    ContainerCreationFailed,
    /// The pod ended in phase Failed, for example because it was evicted.
    PodFailed,
    /// The workload controller of Kubernetes could not create the pod; the message is its own (quota, admission, …).
    PodCreationFailed,
    /// The pod looks ready but its server does not answer: the machine may be gone.
    ServerUnreachable,
    /// The server refused the credentials of `spec.access`, or wants some and none are given.
    AuthenticationFailed,
    /// What `spec.access` refers to is missing (a Secret, a key in it) or cannot be read.
    AccessUnavailable,
    /// TLS with the server failed: its certificate is not from the authorities of `spec.access.tls`, has another name,
    /// or ours was not accepted.
    TlsFailed,
    /// The server is loading its data from disk and does not answer commands yet.
    ServerLoading,
    /// The server runs a script or function that does not end, and answers nothing else.
    ServerBusy,
    /// The server reports a version older than 8.1, or none: it is observed, but nothing is promised.
    UnsupportedVersion,
    /// Everything is as the spec asks.
    Stable,
    /// Objects were just written; waiting for Kubernetes to act on them.
    Applying,
    /// Waiting for the pod to become ready.
    WaitingForPod,
    /// Waiting for the volume claim to be bound.
    WaitingForVolume,
    /// Waiting for the owner of the node to allow a restart (`spec.workloadRevision`).
    WaitingForAuthorisation,
    /// `updateStrategy: OnDelete`: the new template takes effect when the pod is deleted.
    WaitingForPodDeletion,
    /// Something is wrong that the operator cannot mend by itself; another condition says what.
    Blocked,
    /// All objects exist, are as wanted and are healthy.
    AllHealthy,
    /// At least one object is missing, being changed or unhealthy; the message names it.
    NotHealthy,
    /// An object of a name this node needs exists and belongs to something else. It is never taken over.
    NameCollision,
    /// The spec asks for something that cannot be built; the message names the field.
    InvalidSpec,
    /// The Kubernetes API refused an object; the message is its own.
    ApplyRefused,
    /// 1/1 ready replicas.
    ReplicaAvailable,
    /// The StatefulSet's replica is not ready.
    ReplicaUnavailable,
    /// The claim is bound and has the requested size.
    Bound,
    /// The claim waits for a volume.
    ClaimPending,
    /// The claim's volume is being grown; the message has both sizes.
    Resizing,
    /// The volume behind the claim is gone.
    ClaimLost,
    /// The claim named by `persistence.existingClaim` does not exist.
    ClaimNotFound,
    /// The claim is being deleted while this node still wants it.
    ClaimTerminating,
    /// The server has every directive of the spec.
    Applied,
    /// The server refused a directive; the message has its own words. The running server is unchanged, and so is the
    /// file it would start from.
    ServerRefused,
    /// The server, or the object, could not be asked.
    NotObserved,
    /// Some directives take effect only when the server starts again; the message names them.
    RestartRequired,
    /// The pod runs what the spec asks for.
    UpToDate,
}

/// A condition before it has a time: what a pure status function produces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment<C, R> {
    /// Which condition.
    pub condition: C,
    /// Whether it holds.
    pub state: State,
    /// Why, as a constant for programs.
    pub reason: R,
    /// Why, as a sentence for people.
    pub message: String,
}

/// Merge fresh assessments with the conditions stored before: `lastTransitionTime` moves only when the status of a
/// condition changes, so that an unchanged world gives an unchanged status and nothing is written. Conditions that are
/// no longer assessed disappear.
pub fn merge<C, R>(
    stored: &[Condition],
    fresh: &[Assessment<C, R>],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition>
where
    C: Copy + Into<&'static str>,
    R: Copy + Into<&'static str>,
{
    fresh
        .iter()
        .map(|assessment| {
            let type_: &'static str = assessment.condition.into();
            let status: &'static str = assessment.state.into();
            let reason: &'static str = assessment.reason.into();
            let since = stored
                .iter()
                .find(|condition| condition.type_ == type_ && condition.status == status)
                .map_or(Time(now), |condition| condition.last_transition_time.clone());
            Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: assessment.message.clone(),
                observed_generation: generation,
                last_transition_time: since,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(state: State, message: &str) -> Assessment<NodeCondition, NodeReason> {
        Assessment {
            condition: NodeCondition::Ready,
            state,
            reason: NodeReason::PodRunning,
            message: message.to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("should be in range")
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = merge(&[], &[ready(State::False, "no pod")], Some(1), at(10));
        let second = merge(&first, &[ready(State::False, "starting")], Some(1), at(20));
        let third = merge(&second, &[ready(State::True, "up")], Some(2), at(30));
        assert_eq!(first[0].last_transition_time, Time(at(10)));
        assert_eq!(second[0].last_transition_time, Time(at(10)));
        assert_eq!(second[0].message, "starting");
        assert_eq!(third[0].last_transition_time, Time(at(30)));
        assert_eq!(third[0].observed_generation, Some(2));
    }

    #[test]
    fn an_unchanged_world_gives_an_unchanged_list() {
        let first = merge(&[], &[ready(State::True, "up")], Some(1), at(10));
        assert_eq!(merge(&first, &[ready(State::True, "up")], Some(1), at(99)), first);
    }

    #[test]
    fn a_condition_that_is_not_assessed_any_more_disappears() {
        let first = merge(&[], &[ready(State::True, "up")], Some(1), at(10));
        assert!(merge::<NodeCondition, NodeReason>(&first, &[], Some(1), at(20)).is_empty());
    }
}
