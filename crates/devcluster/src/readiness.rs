//! Waits until nodes are ready for pods.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node as ApiNode, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams};
use snafu::{ResultExt, Snafu, ensure};

use crate::cgroups::{CgroupError, Cgroups};
use crate::cluster::Cluster;
use crate::node::Node;
use crate::process::Daemon;

const POLL: Duration = Duration::from_millis(100);

/// The nodes did not become ready.
#[derive(Debug, Snafu)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum ReadinessError {
    #[snafu(display("failed to find the machine's control groups"))]
    Groups { source: CgroupError },
    #[snafu(display("failed to see {missing} ready within {patience:?}"))]
    Late { missing: String, patience: Duration },
    #[snafu(display("failed to keep {what} running; its last words:\n{log}"))]
    Ended { what: String, log: String },
    #[snafu(display("failed to list the nodes"))]
    List {
        #[snafu(source(from(kube::Error, Box::new)))]
        source: Box<kube::Error>,
    },
}

/// Waits until `nodes` are ready and pods can be created. Only what the nodes said at or after `since` counts: a node
/// that lost its power is called ready for most of a minute.
pub(crate) async fn wait_for_nodes(
    cluster: &Cluster,
    client: &Client,
    nodes: &[Node],
    since: Timestamp,
    patience: Duration,
) -> Result<(), ReadinessError> {
    let cgroups = Cgroups::find().context(GroupsSnafu)?;
    let deadline = Instant::now() + patience;
    loop {
        let missing = missing(client, nodes, since).await;
        if matches!(&missing, Ok(missing) if missing.is_empty()) {
            return Ok(());
        }
        for daemon in nodes.iter().flat_map(Node::daemons).chain(cluster.control_plane()) {
            check_alive(&cgroups, &daemon)?;
        }
        if Instant::now() >= deadline {
            return LateSnafu { missing: missing?.join(", "), patience }.fail();
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Fails if the program has ended, with what it said last.
pub(crate) fn check_alive(cgroups: &Cgroups, daemon: &Daemon) -> Result<(), ReadinessError> {
    ensure!(daemon.is_running(cgroups), EndedSnafu { what: &daemon.group, log: daemon.last_words() });
    Ok(())
}

async fn missing(client: &Client, nodes: &[Node], since: Timestamp) -> Result<Vec<String>, ReadinessError> {
    let ready = ready_nodes(client, since).await?;
    let mut missing: Vec<String> =
        nodes.iter().map(Node::name).filter(|name| !ready.contains(name)).collect();
    // Without it the API server refuses every pod of the namespace.
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    if accounts.get_opt("default").await.context(ListSnafu)?.is_none() {
        missing.push("the default service account".to_owned());
    }
    Ok(missing)
}

/// The names of the nodes that said at or after `since` that they are ready.
pub(crate) async fn ready_nodes(client: &Client, since: Timestamp) -> Result<Vec<String>, ReadinessError> {
    let nodes = Api::<ApiNode>::all(client.clone()).list(&ListParams::default()).await.context(ListSnafu)?;
    let ready = nodes.into_iter().filter(|node| is_ready(node, since));
    Ok(ready.filter_map(|node| node.metadata.name).collect())
}

/// A ready node still carries a taint until the controllers have seen it; pods wait for that.
fn is_ready(node: &ApiNode, since: Timestamp) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.any(|condition| {
        // The API keeps whole seconds.
        let said = condition.last_heartbeat_time.as_ref().map(|time| time.0.as_second());
        condition.type_ == "Ready" && condition.status == "True" && said >= Some(since.as_second())
    });
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    is_ready && taints.all(|taint| !taint.key.starts_with("node.kubernetes.io/"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(taints: &Value) -> ApiNode {
        serde_json::from_value(json!({
            "metadata": {"name": "node-1"},
            "spec": {"taints": taints},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z"},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn a_tainted_node_is_not_ready_yet() {
        let since = Timestamp::UNIX_EPOCH;
        assert!(is_ready(&node(&json!([])), since));
        assert!(!is_ready(
            &node(&json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])),
            since
        ));
        assert!(!is_ready(&ApiNode::default(), since));
    }

    #[test]
    fn what_a_node_said_before_does_not_count() {
        let is_ready = |since: &str| is_ready(&node(&json!([])), since.parse().unwrap());
        assert!(is_ready("2026-01-02T03:04:05.9Z"));
        assert!(!is_ready("2026-01-02T03:04:06Z"));
    }
}
