//! Names derived from a ValkeyNode's name, and the bound on that name which makes all of them fit.

/// Longest name of a ValkeyNode. The tightest derived name is the label `controller-revision-hash` of a StatefulSet's
/// pod: `valkey-<node>-<hash of up to 10 characters>` must fit into 63 characters.
pub const NODE_NAME_MAX: usize = 45;

/// Container that runs the server in every Valkey pod.
pub const SERVER_CONTAINER: &str = "valkey";
/// Name of the server's port in pods and Services.
pub const SERVER_PORT_NAME: &str = "valkey";
/// The port a server listens on.
pub const SERVER_PORT: u16 = 6379;

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
    fn a_workload_name_leads_back_to_its_node() {
        assert_eq!(node_of_workload(&workload("a-0-1")), Some("a-0-1"));
        assert_eq!(node_of_workload("other"), None);
    }
}
