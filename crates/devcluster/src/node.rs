//! One node: its network, containerd, kubelet and kube-proxy, and its power switch.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use snafu::{ResultExt, Snafu};

use crate::cgroups::{CgroupError, Cgroups};
use crate::control_plane::flag;
use crate::files::{self, FileError};
use crate::layout::NodeLayout;
use crate::mounts::{self, MountError};
use crate::network::{self, NetworkError};
use crate::node_config;
use crate::process::{self, ChoreError, Daemon, ProcessError};
use crate::traces;

/// What containerd writes last before it serves kubelets.
const CONTAINERD_SERVES: &str = "Start streaming server";
/// How long containerd may take to answer.
const CONTAINERD_PATIENCE: Duration = Duration::from_mins(1);
/// How long a kubelet may take to end when it is asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A node could not be changed.
#[derive(Debug, Snafu)]
pub enum NodeError {
    /// Its configuration.
    #[snafu(display("failed to configure {node}"))]
    Configure {
        /// The node.
        node: String,
        /// The cause.
        source: FileError,
    },
    /// Its network.
    #[snafu(display("failed to connect {node}"))]
    Connect {
        /// The node.
        node: String,
        /// The cause.
        source: NetworkError,
    },
    /// One of its programs.
    #[snafu(display("failed to start or stop a program of {node}"))]
    Program {
        /// The node.
        node: String,
        /// The cause.
        source: ProcessError,
    },
    /// Its mounts.
    #[snafu(display("failed to clear the mounts of {node}"))]
    Mounts {
        /// The node.
        node: String,
        /// The cause.
        source: MountError,
    },
    /// The machine's control groups.
    #[snafu(display("failed to find the processes of {node}"))]
    Groups {
        /// The node.
        node: String,
        /// The cause.
        source: CgroupError,
    },
    /// containerd does not answer.
    #[snafu(display("failed to reach containerd of {node}; its last words:\n{log}"))]
    Containerd {
        /// The node.
        node: String,
        /// The end of its log.
        log: String,
    },
    /// An image could not be loaded.
    #[snafu(display("failed to load the image {} into {node}", archive.display()))]
    Image {
        /// The node.
        node: String,
        /// The image's file.
        archive: PathBuf,
        /// The cause.
        source: ChoreError,
    },
    /// The work was cut off.
    #[snafu(display("failed to wait for the work on {node}"))]
    CutOff {
        /// The node.
        node: String,
        /// The cause.
        source: tokio::task::JoinError,
    },
}

/// A node of the running cluster.
#[derive(Clone, Debug)]
pub struct Node {
    layout: NodeLayout,
    kubernetes: PathBuf,
}

impl Node {
    pub(crate) fn new(layout: NodeLayout, kubernetes: &Path) -> Self {
        Self { layout, kubernetes: kubernetes.to_path_buf() }
    }

    /// The node's name in Kubernetes.
    pub fn name(&self) -> String {
        self.layout.name()
    }

    /// The node's paths, names and addresses.
    pub fn layout(&self) -> &NodeLayout {
        &self.layout
    }

    /// Ends everything on the node at once, as a loss of power would: nothing gets to say goodbye, and what the node
    /// held in memory (runtime state, tmpfs volumes) is gone. Its disk stays.
    pub async fn power_off(&self) -> Result<(), NodeError> {
        self.blocking(Self::power_off_now).await
    }

    /// Starts the node with the disk it had.
    pub async fn power_on(&self) -> Result<(), NodeError> {
        self.blocking(|node| {
            node.boot()?;
            node.join()
        })
        .await
    }

    /// Ends only the kubelet; the pods run on.
    pub async fn stop_kubelet(&self) -> Result<(), NodeError> {
        self.blocking(|node| {
            let group = node.layout.daemon_group("kubelet");
            process::stop(&node.cgroups()?, &group, STOP_PATIENCE).context(ProgramSnafu { node: node.name() })
        })
        .await
    }

    /// Starts the kubelet again.
    pub async fn start_kubelet(&self) -> Result<(), NodeError> {
        self.blocking(|node| {
            node.kubelet().start(&node.cgroups()?).context(ProgramSnafu { node: node.name() })
        })
        .await
    }

    /// Loads an image archive (as `docker save` writes it) into the node.
    pub async fn load_image(&self, archive: &Path) -> Result<(), NodeError> {
        let archive = archive.to_path_buf();
        self.blocking(move |node| node.load_image_now(&archive)).await
    }

    /// Whether all of the node's own programs run.
    pub fn is_running(&self) -> Result<bool, NodeError> {
        let cgroups = self.cgroups()?;
        Ok(self.daemons().iter().all(|daemon| daemon.is_running(&cgroups)))
    }

    /// The node's own programs.
    pub fn daemons(&self) -> [Daemon; 3] {
        [self.containerd(), self.kubelet(), self.kube_proxy()]
    }

    /// Gives the node its network and its container runtime: all that needs no API server.
    pub(crate) fn boot(&self) -> Result<(), NodeError> {
        let node = self.name();
        let cgroups = self.cgroups()?;
        let group = self.layout.group();
        if cgroups.processes(&group).is_empty() {
            // Anew, as a reboot would: rules of a kube-proxy that is gone, or half of a start that was cut off, may be
            // left.
            network::remove_node(&self.layout).context(ConnectSnafu { node: &node })?;
            network::lay_node(&self.layout).context(ConnectSnafu { node: &node })?;
        }
        node_config::write_all(&self.layout).context(ConfigureSnafu { node: &node })?;
        cgroups.create(&group).context(GroupsSnafu { node: &node })?;
        for folder in [self.layout.run(), self.layout.pod_logs(), self.layout.kubelet_root()] {
            files::create_folder(&folder).context(ConfigureSnafu { node: &node })?;
        }
        let containerd = self.containerd();
        let (ran, begins) = (containerd.is_running(&cgroups), containerd.log_length());
        containerd.start(&cgroups).context(ProgramSnafu { node: &node })?;
        // It accepts connections before it has found its pods again, and a kubelet that comes too early ends.
        let serves = || {
            let recovered = ran || containerd.said_since(begins).contains(CONTAINERD_SERVES);
            recovered && UnixStream::connect(self.layout.containerd_socket()).is_ok()
        };
        let deadline = Instant::now() + CONTAINERD_PATIENCE;
        while !serves() {
            if Instant::now() > deadline || !containerd.is_running(&cgroups) {
                return ContainerdSnafu { node, log: containerd.last_words() }.fail();
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Lets the node join the cluster. The API server must answer: a kubelet that finds nobody waits for seconds.
    pub(crate) fn join(&self) -> Result<(), NodeError> {
        let cgroups = self.cgroups()?;
        for daemon in [self.kubelet(), self.kube_proxy()] {
            daemon.start(&cgroups).context(ProgramSnafu { node: self.name() })?;
        }
        Ok(())
    }

    pub(crate) fn load_image_now(&self, archive: &Path) -> Result<(), NodeError> {
        let path = archive.display().to_string();
        let socket = self.layout.containerd_socket().display().to_string();
        let words = ["ctr", "--address", &socket, "--namespace", "k8s.io", "images", "import", &path];
        let loaded = process::run_chore(&self.cgroups()?, words);
        loaded.context(ImageSnafu { node: self.name(), archive })?;
        Ok(())
    }

    /// Ends the container runtime of a node without pods.
    pub(crate) fn stop_containerd(&self) -> Result<(), NodeError> {
        let group = self.layout.daemon_group("containerd");
        process::stop(&self.cgroups()?, &group, STOP_PATIENCE).context(ProgramSnafu { node: self.name() })
    }

    pub(crate) fn power_off_now(&self) -> Result<(), NodeError> {
        let node = self.name();
        if network::links().context(ConnectSnafu { node: &node })?.contains(&self.layout.link()) {
            // First: a dying process's kernel would still send its peers a farewell.
            network::set_link(&self.layout, false).context(ConnectSnafu { node: &node })?;
        }
        process::kill(&self.cgroups()?, &self.layout.group()).context(ProgramSnafu { node: &node })?;
        for folder in [self.layout.run(), self.layout.disk()] {
            mounts::remove_below(&folder).context(MountsSnafu { node: &node })?;
        }
        traces::remove_shim_sockets(&self.layout).context(ConfigureSnafu { node: &node })?;
        files::remove(&self.layout.run()).context(ConfigureSnafu { node: &node })?;
        self.cgroups()?.remove(&self.layout.group()).context(GroupsSnafu { node })
    }

    /// Takes the node away for good.
    pub(crate) fn remove_now(&self) -> Result<(), NodeError> {
        self.power_off_now()?;
        network::remove_node(&self.layout).context(ConnectSnafu { node: self.name() })?;
        files::remove(&self.layout.disk()).context(ConfigureSnafu { node: self.name() })
    }

    fn containerd(&self) -> Daemon {
        let config = self.layout.config("containerd.toml");
        self.daemon("containerd", vec!["containerd".into(), "--config".into(), config.display().to_string()])
    }

    fn kubelet(&self) -> Daemon {
        let node = &self.layout;
        self.daemon(
            "kubelet",
            vec![
                self.kubernetes.display().to_string(),
                "kubelet".to_owned(),
                flag("config", node.config("kubelet").display()),
                flag("kubeconfig", node.cluster().kubeconfig(&node.name()).display()),
                flag("root-dir", node.kubelet_root().display()),
                flag("hostname-override", node.name()),
                flag("node-ip", node.address()),
                flag("node-labels", format!("topology.kubernetes.io/zone={}", node.zone())),
            ],
        )
    }

    fn kube_proxy(&self) -> Daemon {
        self.daemon(
            "kube-proxy",
            vec![
                self.kubernetes.display().to_string(),
                "kube-proxy".to_owned(),
                flag("config", self.layout.config("kube-proxy").display()),
            ],
        )
    }

    fn daemon(&self, name: &str, command: Vec<String>) -> Daemon {
        let group = self.layout.daemon_group(name);
        Daemon { group, namespace: Some(self.layout.namespace_file()), command, log: self.layout.log(name) }
    }

    fn cgroups(&self) -> Result<Cgroups, NodeError> {
        Cgroups::find().context(GroupsSnafu { node: self.name() })
    }

    /// Network, mounts and processes are changed by system calls that block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let node = self.clone();
        let name = self.name();
        tokio::task::spawn_blocking(move || work(&node)).await.context(CutOffSnafu { node: name })?
    }
}

/// The pods' log files of one namespace on the node, also of pods that are gone from the API but not yet from disk.
pub(crate) fn pod_logs(node: &NodeLayout, namespace: Option<&str>) -> Vec<PathBuf> {
    let folders = files::list(&node.pod_logs()).unwrap_or_default();
    let of_namespace = |folder: &&PathBuf| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        namespace.is_none_or(|namespace| name.starts_with(&format!("{namespace}_")))
    };
    let containers =
        folders.iter().filter(of_namespace).flat_map(|folder| files::list(folder).unwrap_or_default());
    let logs = containers.flat_map(|container| files::list(&container).unwrap_or_default());
    logs.filter(|log| fs::metadata(log).is_ok_and(|metadata| metadata.is_file())).collect()
}
