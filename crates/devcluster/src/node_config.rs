//! The configuration files of a node's programs.

use serde_json::{Value, json};

use crate::certificates::AUTHORITY;
use crate::files::{self, FileError};
use crate::layout::{CLUSTER_DOMAIN, DNS_SERVICE, NodeLayout, POD_RANGE, PREFIX};

/// The name, as containerd spells it in full, of the image that holds a pod's namespaces open.
pub const PAUSE_IMAGE: &str = "docker.io/devcluster/pause:1";
/// Where Debian puts the pod network's plugins.
const PLUGINS: &str = "/usr/lib/cni";

/// Writes all of them.
pub(crate) fn write_all(node: &NodeLayout) -> Result<(), FileError> {
    files::write(&node.config("containerd.toml"), containerd(node))?;
    files::write(&node.config("kubelet"), format!("{:#}\n", kubelet(node)))?;
    files::write(&node.config("kube-proxy"), format!("{:#}\n", kube_proxy(node)))?;
    files::write(&node.config("resolv.conf"), format!("nameserver {DNS_SERVICE}\n"))?;
    files::write(&node.pod_network_config().join("10-pods.conflist"), format!("{:#}\n", pod_network(node)))
}

/// containerd 1.6, one of several on the machine: nothing may be left at its default place.
fn containerd(node: &NodeLayout) -> String {
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"
# These would look for tools this machine lacks, or write to folders all containerds share.
disabled_plugins = [
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
stream_server_address = "127.0.0.1"
stream_server_port = "0"
# Machines without CAP_SYS_RESOURCE refuse the negative score that important containers ask for, and runc gives up.
restrict_oom_score_adj = true
# Else all nodes' pods share /run/netns, and nobody knows whose is whose when a node is gone.
netns_mounts_under_state_dir = true
# Debian's containerd would look for loaded profiles that are not there.
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{runc}"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{PLUGINS}"
conf_dir = "{network}"
"#,
        root = node.containerd_root().display(),
        state = node.containerd_state().display(),
        socket = node.containerd_socket().display(),
        runc = node.runc_root().display(),
        network = node.pod_network_config().display(),
    )
}

/// A cable per pod and a route per pod. Without a bridge all packets are routed, so that kube-proxy sees both
/// directions of a connection between two pods of one node, whatever the kernel does with bridged packets.
fn pod_network(node: &NodeLayout) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": format!("{PREFIX}-pods"),
        "plugins": [{
            "type": "ptp",
            "mtu": 1500,
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "dataDir": node.pod_addresses(),
                "ranges": [[{"subnet": node.pod_range()}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
}

/// Kubernetes' defaults, except where several kubelets share a machine or its disk is not theirs to judge.
fn kubelet(node: &NodeLayout) -> Value {
    let cluster = node.cluster();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{}", node.containerd_socket().display()),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": cluster.certificate(AUTHORITY)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": cluster.certificate(&node.name()),
        "tlsPrivateKeyFile": cluster.key(&node.name()),
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": CLUSTER_DOMAIN,
        // The machine's own resolver is out of a pod's reach.
        "resolvConf": node.config("resolv.conf"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", node.group()),
        "failCgroupV1": false,
        "failSwapOn": false,
        // In one shared folder kubelets take each other's logs for leftovers and remove them.
        "podLogsDir": node.pod_logs(),
        "makeIPTablesUtilChains": false,
        // The disk is the machine's: how full it is says nothing about the node.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
    })
}

fn kube_proxy(node: &NodeLayout) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node.name(),
        "clusterCIDR": POD_RANGE,
        "clientConnection": {"kubeconfig": node.cluster().kubeconfig("kube-proxy")},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        // These are settings of the whole machine, which a network namespace may not change.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[test]
    fn containerd_keeps_everything_in_the_nodes_folders() {
        let config = containerd(&Layout::default().node(2));
        for line in [
            "root = \"/var/lib/valkey-devcluster/nodes/node-2/containerd\"",
            "state = \"/run/valkey-devcluster/node-2/containerd\"",
            "address = \"/run/valkey-devcluster/node-2/containerd.sock\"",
            "Root = \"/run/valkey-devcluster/node-2/runc\"",
            "sandbox_image = \"docker.io/devcluster/pause:1\"",
            "restrict_oom_score_adj = true",
        ] {
            assert!(config.contains(line), "{line} is missing in\n{config}");
        }
    }

    #[test]
    fn the_kubelet_keeps_the_defaults_that_tests_depend_on() {
        let config = kubelet(&Layout::default().node(1));
        for lowered in ["syncFrequency", "nodeStatusUpdateFrequency", "nodeLeaseDurationSeconds"] {
            assert!(config.get(lowered).is_none(), "{lowered} must stay at its default");
        }
        assert_eq!(config["cgroupRoot"], "/vkdev/node-1");
        assert_eq!(config["clusterDNS"][0], "10.96.0.10");
    }

    #[test]
    fn pods_get_addresses_of_their_node() {
        let network = pod_network(&Layout::default().node(3));
        assert_eq!(network["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.244.3.0/24");
    }
}
