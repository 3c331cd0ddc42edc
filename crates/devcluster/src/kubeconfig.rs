//! The kubeconfig files with which programs and people reach the cluster.

use serde_json::{Value, json};

use crate::certificates::AUTHORITY;
use crate::files::{self, FileError};
use crate::layout::{API_PORT, HOST_ADDRESS, Layout};

/// Everyone who talks to the API server with a certificate of the same name.
const COMPONENTS: [&str; 5] = ["admin", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns"];

/// Writes the files of the control plane, of `nodes` nodes, and the user's.
pub(crate) fn write_all(layout: &Layout, nodes: u8) -> Result<(), FileError> {
    let node_names: Vec<String> = layout.nodes(nodes).iter().map(crate::layout::NodeLayout::name).collect();
    for identity in COMPONENTS.into_iter().chain(node_names.iter().map(String::as_str)) {
        files::write(&layout.kubeconfig(identity), format!("{:#}\n", render(layout, identity)))?;
    }
    Ok(())
}

/// JSON is YAML, so no writer of YAML is needed.
fn render(layout: &Layout, identity: &str) -> Value {
    // The certificates are named, not copied: a kubeconfig in a checkout stays valid for the next cluster.
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devcluster", "cluster": {
            "server": format!("https://{HOST_ADDRESS}:{API_PORT}"),
            "certificate-authority": layout.certificate(AUTHORITY),
        }}],
        "users": [{"name": identity, "user": {
            "client-certificate": layout.certificate(identity),
            "client-key": layout.key(identity),
        }}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": identity}}],
        "current-context": "devcluster",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_at_the_bridge_with_its_own_certificate() {
        let config = render(&Layout::default(), "node-1");
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://10.89.0.1:6443");
        assert_eq!(
            config["users"][0]["user"]["client-key"],
            "/var/lib/valkey-devcluster/certificates/node-1.key"
        );
    }
}
