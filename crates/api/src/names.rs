//! Names derived from the name of a ValkeyNode or a ValkeyCluster, and the bounds which make all of them fit.

/// Longest name of a ValkeyNode. The tightest derived name is the label `controller-revision-hash` of a StatefulSet's
/// pod: `valkey-<node>-<hash of up to 10 characters>` must fit into 63 characters.
pub const NODE_NAME_MAX: usize = 45;
/// Longest name of a ValkeyCluster: its last node, `<cluster>-499-10`, must fit into [`NODE_NAME_MAX`].
pub const CLUSTER_NAME_MAX: usize = 38;

/// Container that runs the server in every Valkey pod.
pub const SERVER_CONTAINER: &str = "valkey";
/// Name of the server's port in pods and Services.
pub const SERVER_PORT_NAME: &str = "valkey";
/// The port a server listens on.
pub const SERVER_PORT: u16 = 6379;
/// Container that turns a server's figures into metrics.
pub const EXPORTER_CONTAINER: &str = "metrics-exporter";
/// Name of the exporter's port in pods and Services.
pub const EXPORTER_PORT_NAME: &str = "metrics";
/// The port an exporter listens on.
pub const EXPORTER_PORT: u16 = 9121;
/// Init container that prepares a pod of a cluster.
pub const INIT_CONTAINER: &str = "valkey-init";

/// Container of the agent that runs beside a server of a cluster.
pub const SIDECAR_CONTAINER: &str = "valkey-sidecar";
/// The port on which that agent answers the others of its cluster, and the operator.
pub const SIDECAR_PORT: u16 = 17369;
/// The port on which it tells how it is.
pub const SIDECAR_HEALTH_PORT: u16 = 18369;

/// The port of the cluster bus.
pub const BUS_PORT: u16 = 16379;

/// The name a node of a cluster announces: its Service's, which is the same whatever keeps the pod alive.
pub fn announced_host(node: &str, namespace: &str) -> String {
    format!("valkey-{node}.{namespace}.svc")
}

/// Workload, Service and ConfigMap of a node, and the prefix of its pod's name.
pub fn workload(node: &str) -> String {
    format!("valkey-{node}")
}

/// The pod of a node whose workload is a StatefulSet or a bare Pod: the same name, so that DNS names and dashboards
/// do not depend on the workload type.
pub fn pod(node: &str) -> String {
    format!("valkey-{node}-0")
}

/// The claim a node makes for itself when its persistence is `enabled`.
pub fn data_claim(node: &str) -> String {
    format!("valkey-{node}-data")
}

/// The node whose workload has this name.
pub fn node_of_workload(workload: &str) -> Option<&str> {
    workload.strip_prefix("valkey-")
}

/// The node of this index in this shard of a cluster.
pub fn cluster_node(cluster: &str, shard: u32, index: u32) -> String {
    format!("{cluster}-{shard}-{index}")
}

/// The headless Service with all pods of a cluster.
pub fn cluster_service(cluster: &str) -> String {
    format!("valkey-{cluster}")
}

/// The Service with one address that a client can start from.
pub fn cluster_client_service(cluster: &str) -> String {
    format!("valkey-{cluster}-client")
}

/// The PodDisruptionBudget of a cluster.
pub fn cluster_budget(cluster: &str) -> String {
    format!("valkey-{cluster}")
}

/// The Secret with the users file of a cluster's servers.
pub fn acl_secret(cluster: &str) -> String {
    format!("internal-{cluster}-acl")
}

/// The Secret with the passwords of a cluster's system users.
pub fn system_passwords_secret(cluster: &str) -> String {
    format!("internal-{cluster}-system-passwords")
}

/// The Secret that holds users' passwords where the spec names none.
pub fn users_secret(cluster: &str) -> String {
    format!("{cluster}-users")
}

/// The claim a cluster's node uses when its persistence is `external`.
pub fn external_claim(prefix: &str, shard: u32, index: u32) -> String {
    format!("{prefix}-{shard}-{index}")
}

/// The root that is made when the operator is installed.
pub const ROOT_CA: &str = "valkey-root-ca";

/// The Secret for everybody who verifies what a bundle signed.
pub fn bundle_certificates(bundle: &str) -> String {
    format!("internal-{bundle}-ca")
}

/// The Secret with the key of a bundle's authority.
pub fn bundle_key(bundle: &str) -> String {
    format!("internal-{bundle}-ca-key")
}

/// The authority that signs for the channels between the operator and the agents of a cluster.
pub fn mtls_bundle(cluster: &str) -> String {
    format!("{cluster}-mtls")
}

/// The binding with the certificate that the operator shows to the agents of a cluster.
pub fn operator_binding(cluster: &str) -> String {
    format!("{cluster}-operator")
}

/// The binding with the certificates of a cluster's node.
pub fn node_binding(node: &str) -> String {
    node.to_owned()
}

/// The Secret with the certificate that the agent of a node shows.
pub fn agent_certificate(node: &str) -> String {
    format!("internal-{node}-mtls")
}

/// The Secret with the certificate that the operator shows to the agents of a cluster.
pub fn operator_certificate(cluster: &str) -> String {
    format!("internal-{cluster}-operator-mtls")
}

/// The Service by which agents reach the operator that leads.
pub const AGENTS_SERVICE: &str = "valkey-operator-agents";
/// Its port.
pub const AGENTS_PORT: u16 = 17379;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_still_fits_every_derived_object() {
        let node = "n".repeat(NODE_NAME_MAX);
        assert!(workload(&node).len() + 1 + 10 <= 63, "controller-revision-hash label");
        assert!(pod(&node).len() <= 63, "pod name is the pod's host name");
        assert!(data_claim(&node).len() <= 253);
        assert!(format!("{node}-node-pod-0").len() <= 63, "extra selector label");
    }

    #[test]
    fn the_longest_name_of_a_cluster_still_fits_its_last_node() {
        let cluster = "c".repeat(CLUSTER_NAME_MAX);
        assert_eq!(cluster_node(&cluster, 499, 10).len(), NODE_NAME_MAX);
        for name in [cluster_service(&cluster), cluster_client_service(&cluster), cluster_budget(&cluster)] {
            assert!(name.len() <= 63, "{name} is a DNS label");
        }
        for name in [acl_secret(&cluster), system_passwords_secret(&cluster), users_secret(&cluster)] {
            assert!(name.len() <= 253, "{name} is the name of a Secret");
        }
    }

    #[test]
    fn a_workload_name_leads_back_to_its_node() {
        assert_eq!(node_of_workload(&workload("a-0-1")), Some("a-0-1"));
        assert_eq!(node_of_workload("other"), None);
    }
}
