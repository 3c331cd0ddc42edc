//! The cluster's DNS: CoreDNS beside the control plane, reached by pods through an ordinary Service.
//!
//! It is a process and not a pod so that names resolve whichever node a test takes away.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};

use crate::control_plane::{self, flag};
use crate::files::{self, FileError};
use crate::layout::{CLUSTER_DOMAIN, DNS_PORT, DNS_SERVICE, HOST_ADDRESS, Layout};
use crate::own_objects::{self, ApplyError};
use crate::process::Daemon;

fn corefile_path(layout: &Layout) -> PathBuf {
    layout.control_plane().join("Corefile")
}

/// Writes CoreDNS's configuration.
pub(crate) fn write_config(layout: &Layout) -> Result<(), FileError> {
    files::write(&corefile_path(layout), corefile(layout))
}

/// Like the one real clusters are set up with, except for names outside of the cluster: there is nobody to ask, and
/// an answer at once is better than a timeout.
fn corefile(layout: &Layout) -> String {
    let kubeconfig = layout.kubeconfig("coredns");
    format!(
        "\
.:{DNS_PORT} {{
    bind {HOST_ADDRESS}
    errors
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
    cache 30 {{
        disable success {CLUSTER_DOMAIN}
        disable denial {CLUSTER_DOMAIN}
    }}
    loadbalance
}}
",
        kubeconfig = kubeconfig.display()
    )
}

/// The DNS server.
pub(crate) fn daemon(layout: &Layout, kubernetes: &Path) -> Daemon {
    let config = flag("conf", corefile_path(layout).display()).replacen("--", "-", 1);
    control_plane::daemon(layout, kubernetes, "coredns", vec![config])
}

/// Lets CoreDNS read what it serves, and makes it reachable at the cluster's DNS address.
pub(crate) async fn apply(client: &Client) -> Result<(), ApplyError> {
    let roles = Api::<ClusterRole>::all(client.clone());
    own_objects::apply(&roles, "system:coredns", json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "rules": [
            {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"],
             "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    }))
    .await?;
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    own_objects::apply(&bindings, "system:coredns", json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
    }))
    .await?;
    let services = Api::<Service>::namespaced(client.clone(), "kube-system");
    own_objects::apply(&services, "kube-dns", service()).await?;
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), "kube-system");
    own_objects::apply(&slices, "kube-dns", endpoints()).await
}

/// Without a selector: no controller looks for pods behind it.
fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"labels": {"k8s-app": "kube-dns"}},
        "spec": {
            "clusterIP": DNS_SERVICE,
            "ports": [
                {"name": "dns", "protocol": "UDP", "port": 53},
                {"name": "dns-tcp", "protocol": "TCP", "port": 53},
            ],
        },
    })
}

fn endpoints() -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"labels": {
            "kubernetes.io/service-name": "kube-dns",
            "endpointslice.kubernetes.io/managed-by": "devcluster",
        }},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [HOST_ADDRESS], "conditions": {"ready": true}}],
        "ports": [
            {"name": "dns", "protocol": "UDP", "port": DNS_PORT},
            {"name": "dns-tcp", "protocol": "TCP", "port": DNS_PORT},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listens_where_the_endpoints_point() {
        let corefile = corefile(&Layout::default());
        assert!(corefile.starts_with(".:10053 {\n    bind 10.89.0.1\n"), "{corefile}");
        assert_eq!(endpoints()["ports"][0]["port"], 10053);
        assert_eq!(endpoints()["endpoints"][0]["addresses"][0], "10.89.0.1");
    }

    #[test]
    fn the_service_has_the_address_that_kubelets_hand_out() {
        assert_eq!(service()["spec"]["clusterIP"], "10.96.0.10");
    }
}
