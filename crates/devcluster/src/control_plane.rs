//! etcd, the API server, the controller manager and the scheduler, in the machine's own network namespace.

use std::path::Path;

use serde_json::{Value, json};

use crate::certificates::{
    API_SERVER, AUTHORITY, FRONT_PROXY, FRONT_PROXY_AUTHORITY, KUBELET_CLIENT, SERVICE_ACCOUNTS,
};
use crate::files::{self, FileError};
use crate::layout::{API_PORT, HOST_ADDRESS, Layout, POD_RANGE, SERVICE_RANGE};
use crate::process::Daemon;

/// Ports on the loopback interface that a real etcd of the machine would not use.
const ETCD_CLIENTS: &str = "http://127.0.0.1:23790";
const ETCD_PEERS: &str = "http://127.0.0.1:23800";

/// Writes the files that the control plane reads.
pub(crate) fn write_config(layout: &Layout) -> Result<(), FileError> {
    files::write(&layout.control_plane().join("audit-policy"), format!("{:#}\n", audit_policy()))
}

/// Who changed what, but not with which content.
fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        // One line per call, when it is done.
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
            {"level": "None"},
        ],
    })
}

/// The store. It must run before the API server starts to be quick: that one retries only every few seconds.
pub(crate) fn etcd(layout: &Layout, kubernetes: &Path) -> Daemon {
    daemon(
        layout,
        kubernetes,
        "etcd",
        vec![
            flag("data-dir", layout.etcd().display()),
            flag("listen-client-urls", ETCD_CLIENTS),
            flag("advertise-client-urls", ETCD_CLIENTS),
            flag("listen-peer-urls", ETCD_PEERS),
            flag("initial-advertise-peer-urls", ETCD_PEERS),
            flag("name", "devcluster"),
            flag("initial-cluster", format!("devcluster={ETCD_PEERS}")),
            // The store lives as long as the cluster: nothing is lost with the machine's power that matters.
            "--unsafe-no-fsync".to_owned(),
            flag("log-level", "warn"),
        ],
    )
}

/// The API server.
pub(crate) fn api_server(layout: &Layout, kubernetes: &Path) -> Daemon {
    let authority = layout.certificate(AUTHORITY);
    daemon(
        layout,
        kubernetes,
        "kube-apiserver",
        vec![
            flag("etcd-servers", ETCD_CLIENTS),
            flag("bind-address", HOST_ADDRESS),
            flag("advertise-address", HOST_ADDRESS),
            flag("secure-port", API_PORT),
            flag("service-cluster-ip-range", SERVICE_RANGE),
            flag("tls-cert-file", layout.certificate(API_SERVER).display()),
            flag("tls-private-key-file", layout.key(API_SERVER).display()),
            flag("client-ca-file", authority.display()),
            flag("kubelet-certificate-authority", authority.display()),
            flag("kubelet-client-certificate", layout.certificate(KUBELET_CLIENT).display()),
            flag("kubelet-client-key", layout.key(KUBELET_CLIENT).display()),
            flag("kubelet-preferred-address-types", "InternalIP"),
            flag("requestheader-client-ca-file", layout.certificate(FRONT_PROXY_AUTHORITY).display()),
            flag("requestheader-allowed-names", FRONT_PROXY),
            flag("requestheader-username-headers", "X-Remote-User"),
            flag("requestheader-group-headers", "X-Remote-Group"),
            flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            flag("proxy-client-cert-file", layout.certificate(FRONT_PROXY).display()),
            flag("proxy-client-key-file", layout.key(FRONT_PROXY).display()),
            flag("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
            flag(
                "service-account-key-file",
                layout.certificates().join(format!("{SERVICE_ACCOUNTS}.pub")).display(),
            ),
            flag("service-account-signing-key-file", layout.key(SERVICE_ACCOUNTS).display()),
            flag("authorization-mode", "Node,RBAC"),
            flag("enable-admission-plugins", "NodeRestriction"),
            // No kube-proxy serves the root namespace: webhooks are called at their pods' addresses.
            flag("enable-aggregator-routing", true),
            flag("audit-policy-file", layout.control_plane().join("audit-policy").display()),
            flag("audit-log-path", layout.audit_log().display()),
            // Megabytes; whoever counts calls must not lose some to a rotation.
            flag("audit-log-maxsize", 4096),
            flag("allow-privileged", true),
        ],
    )
}

/// The built-in controllers.
pub(crate) fn controller_manager(layout: &Layout, kubernetes: &Path) -> Daemon {
    let kubeconfig = layout.kubeconfig("kube-controller-manager");
    daemon(
        layout,
        kubernetes,
        "kube-controller-manager",
        vec![
            flag("kubeconfig", kubeconfig.display()),
            flag("authentication-kubeconfig", kubeconfig.display()),
            flag("authorization-kubeconfig", kubeconfig.display()),
            flag("bind-address", "127.0.0.1"),
            // There is only one.
            flag("leader-elect", false),
            flag("cluster-cidr", POD_RANGE),
            flag("service-cluster-ip-range", SERVICE_RANGE),
            flag("root-ca-file", layout.certificate(AUTHORITY).display()),
            flag("cluster-signing-cert-file", layout.certificate(AUTHORITY).display()),
            flag("cluster-signing-key-file", layout.key(AUTHORITY).display()),
            flag("service-account-private-key-file", layout.key(SERVICE_ACCOUNTS).display()),
            // Each controller under its own name, as real clusters do and audit logs then show.
            flag("use-service-account-credentials", true),
        ],
    )
}

/// The scheduler.
pub(crate) fn scheduler(layout: &Layout, kubernetes: &Path) -> Daemon {
    let kubeconfig = layout.kubeconfig("kube-scheduler");
    daemon(
        layout,
        kubernetes,
        "kube-scheduler",
        vec![
            flag("kubeconfig", kubeconfig.display()),
            flag("authentication-kubeconfig", kubeconfig.display()),
            flag("authorization-kubeconfig", kubeconfig.display()),
            flag("bind-address", "127.0.0.1"),
            flag("leader-elect", false),
        ],
    )
}

/// Everything that runs beside the nodes.
pub(crate) fn daemons(layout: &Layout, kubernetes: &Path) -> Vec<Daemon> {
    vec![
        etcd(layout, kubernetes),
        api_server(layout, kubernetes),
        controller_manager(layout, kubernetes),
        scheduler(layout, kubernetes),
        crate::dns::daemon(layout, kubernetes),
        provisioner(layout),
    ]
}

/// What gives claims their volumes: this very program.
fn provisioner(layout: &Layout) -> Daemon {
    let name = "provisioner";
    let command = vec![
        layout.program().display().to_string(),
        name.to_owned(),
        flag("kubeconfig", layout.kubeconfig("admin").display()),
        flag("folder", layout.volumes().display()),
    ];
    Daemon { group: layout.control_plane_group(name), namespace: None, command, log: layout.log(name) }
}

/// A program of the control plane.
pub(crate) fn daemon(layout: &Layout, kubernetes: &Path, name: &str, arguments: Vec<String>) -> Daemon {
    let mut command = vec![kubernetes.display().to_string(), name.to_owned()];
    command.extend(arguments);
    Daemon { group: layout.control_plane_group(name), namespace: None, command, log: layout.log(name) }
}

/// A flag of a Go program.
pub(crate) fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_listens_on_the_bridge_alone() {
        let server = api_server(&Layout::default(), Path::new("/cache/kubernetes"));
        assert_eq!(server.command[..2], ["/cache/kubernetes", "kube-apiserver"]);
        assert!(server.command.contains(&"--bind-address=10.89.0.1".to_owned()));
    }

    #[test]
    fn only_mutating_calls_are_audited() {
        let policy = audit_policy();
        assert_eq!(policy["rules"][1]["level"], "None");
        assert!(!policy["rules"][0]["verbs"].as_array().unwrap().contains(&json!("get")));
    }
}
