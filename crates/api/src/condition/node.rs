//! What is said of a ValkeyNode.

use strum::{EnumIter, EnumMessage, IntoStaticStr};

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
