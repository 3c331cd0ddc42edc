//! What the operator may do in the cluster, each rule with its reason. The manifests are generated from here.

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resources in the plural.
    pub resources: &'static [&'static str],
    /// Only objects of these names; empty for all.
    pub names: &'static [&'static str],
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// Why the operator needs this.
    pub why: &'static str,
}

/// Rules in every namespace that is watched.
pub const WATCHED: &[Rule] = &[
    Rule {
        group: "valkey.io",
        resources: &["valkeyclusters"],
        names: &[],
        verbs: &["list", "watch"],
        why: "reads what users ask for",
    },
    Rule {
        group: "valkey.io",
        resources: &["valkeycertificatebundles"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "reads what users ask for, and gives each cluster its authority; deletion is the garbage collector's",
    },
    Rule {
        group: "valkey.io",
        resources: &["valkeycertificatebindings"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        why: "reads what users ask for, and gives each node of a cluster its certificate; deletes those of nodes that are gone",
    },
    Rule {
        group: "valkey.io",
        resources: &["valkeynodes"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        why: "reads what users ask for, and makes the nodes of clusters; deletes those a smaller cluster no longer has",
    },
    Rule {
        group: "valkey.io",
        resources: &[
            "valkeyclusters/status",
            "valkeynodes/status",
            "valkeycertificatebundles/status",
            "valkeycertificatebindings/status",
        ],
        names: &[],
        verbs: &["patch"],
        why: "writes what it sees of them; never a spec that a user wrote",
    },
    Rule {
        group: "valkey.io",
        resources: &[
            "valkeyclusters/finalizers",
            "valkeynodes/finalizers",
            "valkeycertificatebundles/finalizers",
            "valkeycertificatebindings/finalizers",
        ],
        names: &[],
        verbs: &["update"],
        why: "sets owner references with blockOwnerDeletion, where the cluster enforces that permission",
    },
    Rule {
        group: "apps",
        resources: &["statefulsets", "deployments"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "runs each node's workload; deletion is the garbage collector's",
    },
    Rule {
        group: "",
        resources: &["pods"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        why: "sees whether a node's pod is ready; makes the pods of nodes with workloadType Pod; replaces pods in order",
    },
    Rule {
        group: "",
        resources: &["services", "configmaps", "persistentvolumeclaims"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "gives each node its DNS name, its configuration and its volume; deletion is the garbage collector's",
    },
    Rule {
        group: "",
        resources: &["secrets"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "makes the passwords, the users file and the certificates of each cluster; watches those it made, by label, and those a spec names, one by one",
    },
    Rule {
        group: "policy",
        resources: &["poddisruptionbudgets"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "holds back drains that would take too much of a cluster; deletion is the garbage collector's",
    },
    Rule {
        group: "",
        resources: &["events"],
        names: &[],
        verbs: &["list", "watch"],
        why: "a StatefulSet says only in events that it cannot create its pod, and why; the reason is shown in a condition",
    },
    Rule {
        group: "events.k8s.io",
        resources: &["events"],
        names: &[],
        verbs: &["create", "patch"],
        why: "tells of transitions; a repeated one is counted up",
    },
];

/// Rules for what belongs to no namespace.
pub const CLUSTER_WIDE: &[Rule] = &[
    Rule {
        group: "",
        resources: &["nodes"],
        names: &[],
        verbs: &["get"],
        why: "tells each server the zone of its machine; without it servers have no availability-zone, and all else works",
    },
    Rule {
        group: "valkey.io",
        resources: &["valkeycas"],
        names: &[],
        verbs: &["list", "watch"],
        why: "reads which roots users ask for",
    },
    Rule {
        group: "valkey.io",
        resources: &["valkeycas/status"],
        names: &[],
        verbs: &["patch"],
        why: "writes what it sees of them",
    },
    Rule {
        group: "events.k8s.io",
        resources: &["events"],
        names: &[],
        verbs: &["create", "patch"],
        why: "tells of their transitions; Kubernetes keeps events of what belongs to no namespace in the namespace default",
    },
];

/// Rules in the operator's own namespace.
pub const OWN_NAMESPACE: &[Rule] = &[
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        names: &[],
        verbs: &["create"],
        why: "makes the Lease of the leader election; creation cannot be limited to a name",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        names: &["valkey-operator"],
        verbs: &["get", "list", "watch", "update"],
        why: "takes, renews and releases the Lease, and sees at once when another replica releases it",
    },
    Rule {
        group: "",
        resources: &["secrets"],
        names: &[],
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "keeps the roots that it makes, and reads those that somebody gives; each is watched by its name",
    },
    Rule {
        group: "",
        resources: &["pods"],
        names: &[],
        verbs: &["list", "watch", "patch"],
        why: "labels the replica that leads, which is how agents find it; names of pods are not known before",
    },
    Rule {
        group: "cert-manager.io",
        resources: &["certificates"],
        names: &[],
        verbs: &["get", "create", "patch"],
        why: "asks cert-manager for a root, where a ValkeyCA says so",
    },
];
