//! Every path, name and address of the local cluster.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The bridge in the root network namespace that joins the nodes.
pub const BRIDGE: &str = "vkdev0";
/// Prefix of every network namespace, link and nft table that belongs to the cluster.
pub const PREFIX: &str = "vkdev";
/// The bridge's own address: the API server and the cluster's DNS listen here and nowhere else.
pub const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
/// The addresses of the bridge and the nodes.
pub const NODE_RANGE: &str = "10.89.0.0/24";
/// The addresses of all pods; each node has a /24 of it.
pub const POD_RANGE: &str = "10.244.0.0/16";
/// The virtual addresses of Services.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The Service `kubernetes.default`.
pub const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The Service that answers DNS.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Where CoreDNS really listens; not 53, which a resolver of the machine may hold on every address.
pub const DNS_PORT: u16 = 10053;
/// The API server's port on [`HOST_ADDRESS`].
pub const API_PORT: u16 = 6443;
/// The DNS domain of the cluster.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// The control group, below every hierarchy, that holds every process of the cluster.
pub const CGROUP: &str = "vkdev";
/// The control group of what a start or stop has others do, e.g. load an image.
pub const CHORES_CGROUP: &str = "vkdev/chores";
/// Most nodes one cluster can have. Routes between all of them are laid from the start.
pub const MAX_NODES: u8 = 9;

/// The folders of the one cluster a machine can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    state: PathBuf,
    run: PathBuf,
}

impl Default for Layout {
    fn default() -> Self {
        Self { state: "/var/lib/valkey-devcluster".into(), run: "/run/valkey-devcluster".into() }
    }
}

impl Layout {
    /// What outlives a restart of a program: certificates, etcd, container images, logs.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Sockets and whatever a reboot would clear.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// The disks of volumes.
    pub fn volumes(&self) -> PathBuf {
        self.state.join("volumes")
    }

    /// The notes of what is broken on purpose.
    pub fn faults(&self) -> PathBuf {
        self.run.join("faults")
    }

    /// A copy of this program for the daemons: the checkout it was built in may be cleaned while they run.
    pub fn program(&self) -> PathBuf {
        self.state.join("devcluster")
    }

    /// Which cluster this is and how far its start came.
    pub fn record(&self) -> PathBuf {
        self.state.join("cluster.json")
    }

    /// The machine's kernel settings as they were before the cluster changed them.
    pub fn kernel_settings(&self) -> PathBuf {
        self.state.join("kernel-settings.json")
    }

    /// Certificates and keys.
    pub fn certificates(&self) -> PathBuf {
        self.state.join("certificates")
    }

    /// The certificate `name`.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.certificates().join(format!("{name}.crt"))
    }

    /// The private key `name`.
    pub fn key(&self, name: &str) -> PathBuf {
        self.certificates().join(format!("{name}.key"))
    }

    /// The kubeconfig of the identity `name`; `admin` is the user's.
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.state.join("kubeconfigs").join(name)
    }

    /// Configuration files of the control plane.
    pub fn control_plane(&self) -> PathBuf {
        self.state.join("control-plane")
    }

    /// etcd's data.
    pub fn etcd(&self) -> PathBuf {
        self.state.join("etcd")
    }

    /// Logs of all components; kept when the cluster is taken down.
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// The log of the component `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// The API server's record of mutating calls.
    pub fn audit_log(&self) -> PathBuf {
        self.logs().join("audit.log")
    }

    /// Held by whoever changes the cluster. Outside of [`Self::run`], which is removed while it is held.
    pub fn lock(&self) -> PathBuf {
        self.run.with_extension("lock")
    }

    /// The control group of the control plane's component `name`.
    pub fn control_plane_group(&self, name: &str) -> String {
        format!("{CGROUP}/control-plane/{name}")
    }

    /// Node number `number`, counted from 1.
    pub fn node(&self, number: u8) -> NodeLayout {
        NodeLayout { layout: self.clone(), number }
    }

    /// The first `count` nodes.
    pub fn nodes(&self, count: u8) -> Vec<NodeLayout> {
        (1..=count).map(|number| self.node(number)).collect()
    }
}

/// The paths, names and addresses of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    layout: Layout,
    number: u8,
}

impl NodeLayout {
    /// The cluster this node belongs to.
    pub fn cluster(&self) -> &Layout {
        &self.layout
    }

    /// The node's number, counted from 1.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The node's name in Kubernetes.
    pub fn name(&self) -> String {
        format!("node-{}", self.number)
    }

    /// The zone label: three zones, taken in turn.
    pub fn zone(&self) -> &'static str {
        ["zone-a", "zone-b", "zone-c"][usize::from(self.number.saturating_sub(1) % 3)]
    }

    /// The node's address on the bridge.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 89, 0, 10 + self.number)
    }

    /// The addresses of the node's pods.
    pub fn pod_range(&self) -> String {
        format!("10.244.{}.0/24", self.number)
    }

    /// The network namespace.
    pub fn namespace(&self) -> String {
        format!("{PREFIX}-{}", self.number)
    }

    /// The file that holds the network namespace open.
    pub fn namespace_file(&self) -> PathBuf {
        Path::new("/run/netns").join(self.namespace())
    }

    /// The root namespace's end of the node's network cable.
    pub fn link(&self) -> String {
        format!("{PREFIX}-node{}", self.number)
    }

    /// The control group of everything on the node; the kubelet keeps its pods below it.
    pub fn group(&self) -> String {
        format!("{CGROUP}/{}", self.name())
    }

    /// The control group of the node's own program `name`, beside the pods.
    pub fn daemon_group(&self, name: &str) -> String {
        format!("{}/daemons/{name}", self.group())
    }

    /// What the node would keep on its disk.
    pub fn disk(&self) -> PathBuf {
        self.layout.state.join("nodes").join(self.name())
    }

    /// What the node would lose with its power.
    pub fn run(&self) -> PathBuf {
        self.layout.run.join(self.name())
    }

    /// A configuration file of the node.
    pub fn config(&self, name: &str) -> PathBuf {
        self.disk().join("config").join(name)
    }

    /// containerd's images, snapshots and metadata.
    pub fn containerd_root(&self) -> PathBuf {
        self.disk().join("containerd")
    }

    /// containerd's runtime state: bundles, pods' network namespaces, mounts.
    pub fn containerd_state(&self) -> PathBuf {
        self.run().join("containerd")
    }

    /// The socket of containerd.
    pub fn containerd_socket(&self) -> PathBuf {
        self.run().join("containerd.sock")
    }

    /// runc's record of containers.
    pub fn runc_root(&self) -> PathBuf {
        self.run().join("runc")
    }

    /// Where the pod network is described.
    pub fn pod_network_config(&self) -> PathBuf {
        self.config("cni")
    }

    /// Which pod addresses are taken.
    pub fn pod_addresses(&self) -> PathBuf {
        self.disk().join("pod-addresses")
    }

    /// The kubelet's own folder: volumes of pods, checkpoints.
    pub fn kubelet_root(&self) -> PathBuf {
        self.disk().join("kubelet")
    }

    /// Logs of the node's containers.
    pub fn pod_logs(&self) -> PathBuf {
        self.disk().join("pod-logs")
    }

    /// The log of the node's own program `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.layout.log(&format!("{}-{name}", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nodes_share_nothing() {
        let nodes = Layout::default().nodes(MAX_NODES);
        let distinct =
            |of: &dyn Fn(&NodeLayout) -> String| nodes.iter().map(of).collect::<BTreeSet<_>>().len();
        for of in [
            &|node: &NodeLayout| node.name(),
            &|node| node.address().to_string(),
            &NodeLayout::pod_range,
            &NodeLayout::namespace,
            &NodeLayout::link,
            &NodeLayout::group,
            &|node| node.containerd_socket().display().to_string(),
            &|node| node.pod_logs().display().to_string(),
        ] as [&dyn Fn(&NodeLayout) -> String; 8]
        {
            assert_eq!(distinct(of), nodes.len());
        }
    }

    #[test]
    fn three_nodes_are_in_three_zones() {
        let zones: Vec<_> = Layout::default().nodes(4).iter().map(NodeLayout::zone).collect();
        assert_eq!(zones, ["zone-a", "zone-b", "zone-c", "zone-a"]);
    }

    #[test]
    fn link_names_fit_the_kernel() {
        assert!(Layout::default().node(MAX_NODES).link().len() < 16);
    }

    #[test]
    fn the_lock_outlives_the_run_folder() {
        let layout = Layout::default();
        assert!(!layout.lock().starts_with(layout.run()));
    }
}
