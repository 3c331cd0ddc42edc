//! Every label key, annotation key and fixed label value: one file, so that a selector and the label it selects
//! cannot drift apart.

/// What the software is; always [`NAME_VALUE`].
pub const NAME: &str = "app.kubernetes.io/name";
/// Value of [`NAME`].
pub const NAME_VALUE: &str = "valkey";
/// The ValkeyNode an object belongs to; the selector of its workload and Service.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// Who manages the object; the operator's caches hold only objects with [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_VALUE: &str = "valkey-operator";
/// Prefix of the labels that a parent puts on a ValkeyNode and that its objects inherit.
pub const OWN_PREFIX: &str = "valkey.io/";
/// The ValkeyCluster a node belongs to.
pub const CLUSTER: &str = "valkey.io/cluster";
/// Label of the operator's pod that leads: the Service for agents selects it.
pub const LEADER: &str = "valkey.io/leader";
/// Number of the shard of a ValkeyCluster that a node was made for.
pub const SHARD_INDEX: &str = "valkey.io/shard-index";
/// Number of a node within its shard. It says nothing about the node's role.
pub const NODE_INDEX: &str = "valkey.io/node-index";
/// Unique per pod, so that a Service or a `NetworkPolicy` can select exactly one.
pub const POD_EXTRA_SELECTOR: &str = "valkey-pod-extra-selector";

/// Annotation on everything the operator creates: the resource a user asked for.
pub const CR: &str = "valkey.io/cr";
/// Annotation with the hash of what was last applied: a field that disappears from what we want is only noticed
/// through it, because an absent field never differs from what the API server holds.
pub const APPLIED: &str = "valkey.io/applied";
/// Annotation on a pod (template) with the revision a parent authorises.
pub const WORKLOAD_REVISION: &str = "valkey.io/workload-revision";
/// Annotation on a pod template with the hash of the directives that only a restart can change.
pub const RESTART_CONFIG: &str = "valkey.io/restart-config";

/// Annotation by which a user lets the operator go on although data may be lost.
pub const ACCEPT_DATA_LOSS: &str = "valkey.io/accept-data-loss";
/// Annotation by which a user asks for a restart of every node; each new value is one restart.
pub const RESTARTED_AT: &str = "valkey.io/restartedAt";
/// Annotation by which a user says that the servers of these ValkeyNodes are dead (names with commas between them), where
/// the operator cannot make sure of it because their machines are out of reach.
pub const DEAD_NODES: &str = "valkey.io/dead-nodes";
/// Annotation by which a user asks for new passwords of the system users; each new value is one rotation.
pub const ROTATE_SYSTEM_PASSWORDS: &str = "valkey.io/rotate-system-passwords";

/// Annotation by which a user asks for a new root, authority or certificate now; each new value is one rotation.
pub const ROTATE: &str = "valkey.io/rotate";

/// Field manager of everything the node controller applies.
pub const NODE_FIELD_MANAGER: &str = "valkey-operator/node";
/// Field manager of everything the cluster controller applies.
pub const CLUSTER_FIELD_MANAGER: &str = "valkey-operator/cluster";
/// Field manager of everything the controllers of certificates apply.
pub const CERTIFICATES_FIELD_MANAGER: &str = "valkey-operator/certificates";
