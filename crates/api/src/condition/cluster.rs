//! What is said of a ValkeyCluster.

use strum::{EnumIter, EnumMessage, IntoStaticStr};

/// Conditions of a ValkeyCluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, EnumMessage, IntoStaticStr)]
pub enum ClusterCondition {
    /// Every slot is served and the cluster is as the spec asks.
    Ready,
    /// The operator is working towards the spec, or waiting for something that should happen by itself.
    Progressing,
    /// Something that was there is missing: a node, a copy that is in sync, or a part of the slots.
    Degraded,
    /// The nodes have met and agree on one cluster. It stays true from then on.
    ClusterFormed,
    /// Each of the 16384 slots belongs to a primary.
    SlotsAssigned,
    /// Every node has the users of `spec.users` with their passwords.
    UsersApplied,
    /// A change that needs restarts cannot go on; the message says where it stands and what would let it go on.
    RollBlocked,
    /// The operator had to speak to a server without its own user, because the server does not know it.
    AuthFallback,
    /// Part of `spec.config` is not used.
    ConfigurationWarning,
    /// The operator hears the agent beside every server that serves. Where it does not, it asks the server itself: nothing is
    /// lost by that but time.
    SidecarsConnected,
}

/// Why a condition of a ValkeyCluster has its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, EnumMessage, IntoStaticStr)]
pub enum ClusterReason {
    /// All slots are served, and every node is ready and in sync.
    ClusterHealthy,
    /// The cluster is being formed for the first time; the message says how far it is.
    Forming,
    /// Nodes that the spec asks for are missing or not ready; the message names them.
    NodesMissing,
    /// Servers do not answer the operator; the message names their nodes.
    NodesNotReachable,
    /// Some slots are served by nobody; the message names the shards.
    SlotsUncovered,
    /// Replicas are not in sync with their primary; the message names their nodes.
    ReplicasNotInSync,
    /// A shard works with fewer nodes than it should; the message names it.
    ShardsDegraded,
    /// The spec asks for something that cannot be built; the message names the field.
    InvalidSpec,
    /// An object of a name this cluster needs exists and belongs to something else. It is never taken over.
    NameCollision,
    /// The Kubernetes API refused an object; the message is its own.
    ApplyRefused,
    /// Objects were just written; waiting for Kubernetes and the nodes to act on them.
    Reconciling,
    /// Everything is as the spec asks.
    Stable,
    /// The nodes agree on one cluster.
    Formed,
    /// The nodes have not met yet.
    NotFormed,
    /// Each slot belongs to a primary.
    AllSlotsAssigned,
    /// Some slots belong to no primary.
    SlotsUnassigned,
    /// Every node has the users of the spec.
    UsersInStep,
    /// The users wait for something, for example for the first node; the message says for what.
    UsersPending,
    /// The users are on their way to the nodes.
    UsersPropagating,
    /// A server refused the users; the message has its own words. No node was changed.
    UsersRefused,
    /// A Secret with passwords, or a key in it, does not exist or has no usable value; the message names it. What the
    /// servers have stays as it is.
    PasswordSecretMissing,
    /// No change needs a restart.
    NotRolling,
    /// Nodes are being restarted one after the other.
    Rolling,
    /// A node cannot be restarted because no other copy of its shard is in sync.
    NoReplicaInSync,
    /// A restarted pod does not become ready; no further node is restarted before it does or the spec changes.
    PodNotBack,
    /// A server runs a release that cannot do what the change needs; the message says what to do.
    OldRelease,
    /// The operator speaks to every server as its own user.
    NoFallback,
    /// A server does not know the operator's user and let it in as `default`; the message names the nodes.
    DefaultUserUsed,
    /// Every directive of `spec.config` is used.
    ConfigurationClean,
    /// Directives of `spec.config` belong to the operator and are ignored; the message names them.
    DirectiveIgnored,
    /// A server refused a directive of `spec.config`; the message has its words. Every server keeps what it has.
    DirectiveRefused,
    /// Shards or replicas are being added or removed.
    Scaling,
    /// The operator mends what is broken; the message says what.
    Healing,
    /// The operator cannot go on without risking data; the message says what to decide, and how.
    WaitingForUser,
    /// The Secret of `networking.tls` does not exist or holds no usable certificate; the message says which part.
    TlsSecretUnusable,
    /// Every agent was heard of late.
    SidecarsHeard,
    /// Agents were not heard of late; the message names their nodes. Their certificate, the network between their pods and the
    /// operator, or their logs (`valkey-sidecar`) tell why.
    SidecarsSilent,
    /// Pods were made before there were agents beside servers; the message names their nodes. They get one when they are restarted
    /// next, and nothing restarts them for it.
    SidecarsMissing,
    /// No pod serves yet.
    SidecarsPending,
}
