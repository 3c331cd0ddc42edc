//! The running cluster, as tests and tools use it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use snafu::{OptionExt, ResultExt, Snafu};

use crate::audit::{self, AuditEntry, AuditError};
use crate::cgroups::{CgroupError, Cgroups};
use crate::collect::{self, CollectError};
use crate::control_plane;
use crate::faults::{FaultError, Faults};
use crate::files::FileError;
use crate::layout::Layout;
use crate::node::{Node, NodeError};
use crate::process::Daemon;
use crate::readiness::{self, ReadinessError};
use crate::record::{Phase, Record};
use crate::status::{self, Status};
use crate::storage::{Disks, StorageError};
use crate::target;

/// The cluster could not be used.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub(crate)))]
pub enum ClusterError {
    /// Its record could not be read.
    #[snafu(display("failed to find the local cluster"))]
    Find {
        /// The cause.
        source: FileError,
    },
    /// There is no such node.
    #[snafu(display("failed to find the node {name}; the cluster has {known}"))]
    NoSuchNode {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Its kubeconfig could not be used.
    #[snafu(display("failed to use the kubeconfig {}", path.display()))]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[snafu(source(from(KubeconfigError, Box::new)))]
        source: Box<KubeconfigError>,
    },
    /// The API server was not reached, or said no.
    #[snafu(display("failed to {action}"))]
    Api {
        /// What was asked of it.
        action: &'static str,
        /// The cause.
        #[snafu(source(from(kube::Error, Box::new)))]
        source: Box<kube::Error>,
    },
    /// The machine's control groups.
    #[snafu(display("failed to find the cluster's processes"))]
    FindGroups {
        /// The cause.
        source: CgroupError,
    },
    /// Its nodes are not ready.
    #[snafu(display("failed to wait for the cluster"))]
    Readiness {
        /// The cause.
        source: ReadinessError,
    },
    /// One of its nodes.
    #[snafu(display("failed to change a node"))]
    Node {
        /// The cause.
        #[snafu(source(from(NodeError, Box::new)))]
        source: Box<NodeError>,
    },
}

/// The machine's cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    layout: Layout,
    nodes: u8,
    kubernetes: PathBuf,
}

impl Cluster {
    /// The cluster whose start came to its end; none if there is none.
    pub fn find() -> Result<Option<Self>, ClusterError> {
        let layout = Layout::default();
        let record = Record::read(&layout).context(FindSnafu)?.filter(|record| record.phase == Phase::Up);
        Ok(record.map(|record| Self::new(layout, record.nodes, &record.kubernetes)))
    }

    pub(crate) fn new(layout: Layout, nodes: u8, kubernetes: &Path) -> Self {
        Self { layout, nodes, kubernetes: kubernetes.to_path_buf() }
    }

    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All nodes.
    pub fn nodes(&self) -> Vec<Node> {
        self.layout.nodes(self.nodes).into_iter().map(|node| Node::new(node, &self.kubernetes)).collect()
    }

    /// The node called `name`.
    pub fn node(&self, name: &str) -> Result<Node, ClusterError> {
        let nodes = self.nodes();
        let known = || nodes.iter().map(Node::name).collect::<Vec<_>>().join(", ");
        let found = nodes.iter().find(|node| node.name() == name);
        Ok(found.with_context(|| NoSuchNodeSnafu { name, known: known() })?.clone())
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig("admin")
    }

    /// The program that holds all of Kubernetes; started under a component's name, or with it as first argument.
    pub fn kubernetes(&self) -> &Path {
        &self.kubernetes
    }

    /// kubectl for this cluster: give it arguments and run it.
    pub fn kubectl(&self) -> tokio::process::Command {
        let mut kubectl = tokio::process::Command::new(&self.kubernetes);
        kubectl.arg("kubectl").env("KUBECONFIG", self.kubeconfig()).kill_on_drop(true);
        kubectl
    }

    /// The API server's record of mutating calls.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// The mutating calls that arrived at or after `since`.
    pub fn audit_since(&self, since: Timestamp) -> Result<Vec<AuditEntry>, AuditError> {
        audit::read_since(&self.audit_log(), since)
    }

    /// A client with the administrator's rights.
    pub async fn client(&self) -> Result<Client, ClusterError> {
        client(&self.kubeconfig()).await
    }

    /// Loads an image archive (as `docker save` writes it) into all nodes.
    pub async fn load_image(&self, archive: &Path) -> Result<(), ClusterError> {
        for node in self.nodes() {
            node.load_image(archive).await.context(NodeSnafu)?;
        }
        Ok(())
    }

    /// Breaks things on purpose.
    pub fn faults(&self) -> Result<Faults, FaultError> {
        Faults::open(&self.layout.faults())
    }

    /// The disks behind the volumes.
    pub fn disks(&self) -> Result<Disks, StorageError> {
        Disks::open(&self.layout.volumes())
    }

    /// Looks at everything the cluster is made of.
    pub async fn status(&self) -> Result<Status, ClusterError> {
        status::status(self).await
    }

    /// Gathers logs, events and objects of `namespaces` (all, if none is named) into `folder`.
    pub async fn collect(&self, folder: &Path, namespaces: &[&str]) -> Result<(), CollectError> {
        collect::collect(self, folder, namespaces).await
    }

    /// The programs beside the nodes.
    pub fn control_plane(&self) -> Vec<Daemon> {
        control_plane::daemons(&self.layout, &self.kubernetes)
    }

    /// Whether the control plane runs and answers.
    pub async fn is_answering(&self) -> Result<bool, ClusterError> {
        let cgroups = Cgroups::find().context(FindGroupsSnafu)?;
        if !self.control_plane().iter().all(|daemon| daemon.is_running(&cgroups)) {
            return Ok(false);
        }
        let Ok(client) = self.client().await else { return Ok(false) };
        Ok(is_ready(&client).await)
    }

    /// Waits until `nodes` have said at or after `since` that they are ready.
    pub async fn wait_for_nodes(
        &self,
        nodes: &[Node],
        since: Timestamp,
        patience: Duration,
    ) -> Result<(), ClusterError> {
        let client = self.client().await?;
        readiness::wait_for_nodes(self, &client, nodes, since, patience).await.context(ReadinessSnafu)
    }
}

/// A client for the cluster of `kubeconfig`. Of a list of files (`a:b`) the first that exists is read; kubectl would merge
/// all of them.
pub async fn client(kubeconfig: &Path) -> Result<Client, ClusterError> {
    let path = target::first_file(kubeconfig);
    let read = Kubeconfig::read_from(&path).context(KubeconfigSnafu { path: &path })?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let mut config = config.context(KubeconfigSnafu { path: &path })?;
    // Only the cluster itself is meant, whatever proxy the user's environment names.
    config.proxy_url = None;
    Client::try_from(config).context(ApiSnafu { action: "prepare a client" })
}

/// Whether the API server calls itself ready. It must say so within a second.
pub(crate) async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    let answer = tokio::time::timeout(Duration::from_secs(1), client.request_text(request)).await;
    matches!(answer, Ok(Ok(text)) if text == "ok")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_node_is_answered_with_the_known_ones() {
        let cluster = Cluster::new(Layout::default(), 2, Path::new("/kubernetes"));
        let error = cluster.node("node-7").unwrap_err();
        assert_eq!(error.to_string(), "failed to find the node node-7; the cluster has node-1, node-2");
        assert_eq!(cluster.node("node-2").unwrap().name(), "node-2");
    }
}
