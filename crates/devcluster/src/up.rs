//! Starts a cluster, or brings a running one to the wanted number of nodes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams};
use snafu::{ResultExt, Snafu, ensure};

use crate::cache::{self, CacheError};
use crate::certificates::{self, CertificateError};
use crate::cgroups::{CgroupError, Cgroups};
use crate::checkout;
use crate::cluster::{self, Cluster, ClusterError};
use crate::control_plane;
use crate::dns;
use crate::files::{self, FileError};
use crate::image_store::{ImageStore, StoreError};
use crate::images::{self, Archive, ImageError};
use crate::kernel_settings;
use crate::kubeconfig;
use crate::kubelet_access;
use crate::kubernetes_build::{self, BuildError};
use crate::layout::{Layout, MAX_NODES};
use crate::leftovers::{self, ClearError};
use crate::lock::{self, LockError};
use crate::machine::{self, MachineError};
use crate::network::{self, NetworkError};
use crate::node::{Node, NodeError};
use crate::own_objects::ApplyError;
use crate::process::{self, ProcessError};
use crate::progress::{self, Step};
use crate::readiness::{self, ReadinessError};
use crate::record::{Phase, Record};

/// How long the API server may take to be ready on a busy machine.
const API_PATIENCE: Duration = Duration::from_mins(2);
/// How long the nodes may take to be ready after that.
const NODE_PATIENCE: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(100);

/// The cluster did not come up.
#[derive(Debug, Snafu)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum UpError {
    #[snafu(display("failed to start {nodes} nodes: there can be 1 to {MAX_NODES}"))]
    Count { nodes: u8 },
    #[snafu(display("failed to wait for another devcluster"))]
    Wait { source: LockError },
    #[snafu(display("failed to prepare the machine"))]
    Machine { source: MachineError },
    #[snafu(display("failed to get Kubernetes"))]
    Build { source: BuildError },
    #[snafu(display("failed to build or load the images"))]
    BuildImages { source: ImageError },
    #[snafu(display("failed to copy this program to {}", path.display()))]
    CopyProgram { path: PathBuf, source: std::io::Error },
    #[snafu(display("failed to end what an earlier start left running"))]
    Chores { source: ProcessError },
    #[snafu(display("failed to clear what an earlier cluster left"))]
    Clear { source: ClearError },
    #[snafu(display("failed to write the cluster's files"))]
    Files { source: FileError },
    #[snafu(display("failed to issue the cluster's certificates"))]
    Certificates { source: CertificateError },
    #[snafu(display("failed to lay the cluster's network"))]
    Network { source: NetworkError },
    #[snafu(display("failed to find the machine's control groups"))]
    Groups { source: CgroupError },
    #[snafu(display("failed to start the control plane"))]
    ControlPlane { source: ProcessError },
    #[snafu(display("failed to wait for {what} for {patience:?}"))]
    Late { what: String, patience: Duration },
    #[snafu(display("failed to wait for the cluster"))]
    Readiness { source: ReadinessError },
    #[snafu(display("failed to set up the cluster's DNS"))]
    Dns { source: ApplyError },
    #[snafu(display("failed to let the kubelets read what they need"))]
    KubeletAccess { source: ApplyError },
    #[snafu(display("failed to start a node"))]
    Node { source: NodeError },
    #[snafu(display("failed to find a place for unpacked images"))]
    Cache { source: CacheError },
    #[snafu(display("failed to bring the images to the nodes"))]
    Images { source: StoreError },
    #[snafu(display("failed to ask the cluster"))]
    Ask { source: ClusterError },
    #[snafu(display("failed to remove the node {node} from the API"))]
    Forget {
        node: String,
        #[snafu(source(from(kube::Error, Box::new)))]
        source: Box<kube::Error>,
    },
    #[snafu(display("failed to finish a part of the start"))]
    CutOff { source: tokio::task::JoinError },
}

/// What to start.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// How many nodes, 1 to [`MAX_NODES`].
    pub nodes: u8,
    /// Images that every node gets beside the stock ones (pause, Valkey, exporter).
    pub images: Vec<Archive>,
    /// The checkout that gets `.devcluster/kubeconfig` and `.devcluster/bin/kubectl`.
    pub checkout: PathBuf,
}

/// Starts the cluster. One that runs is left as it is, but for missing or surplus nodes.
pub async fn up(options: &UpOptions) -> Result<Cluster, UpError> {
    let nodes = options.nodes;
    ensure!((1..=MAX_NODES).contains(&nodes), CountSnafu { nodes });
    let layout = Layout::default();
    let begun = Instant::now();
    machine::prepare().context(MachineSnafu)?;
    let kubernetes = blocking(|| kubernetes_build::ensure().context(BuildSnafu)).await?;
    let store = blocking(image_store).await?;
    let lock_file = layout.lock();
    let _lock = blocking(move || lock::take(&lock_file).context(WaitSnafu)).await?;

    let cgroups = Cgroups::find().context(GroupsSnafu)?;
    process::end_chores(&cgroups).context(ChoresSnafu)?;
    let cluster = match running(&layout, &kubernetes).await? {
        Some(cluster) => adjust(&cluster, options, &store).await?,
        None => start(&layout, &kubernetes, options, &store).await?,
    };
    checkout::write(&cluster, &options.checkout).context(FilesSnafu)?;
    progress::report(begun, &format!("the cluster is up with {nodes} nodes"));
    Ok(cluster)
}

/// The cluster that can be kept: of the same program, started to its end, and answering.
async fn running(layout: &Layout, kubernetes: &Path) -> Result<Option<Cluster>, UpError> {
    let Some(record) = Record::read(layout).context(FilesSnafu)? else { return Ok(None) };
    if record.phase != Phase::Up || record.kubernetes != kubernetes {
        return Ok(None);
    }
    let cluster = Cluster::new(layout.clone(), record.nodes, kubernetes);
    Ok(cluster.is_answering().await.context(AskSnafu)?.then_some(cluster))
}

/// Adds and removes nodes, and brings back those that are off.
async fn adjust(old: &Cluster, options: &UpOptions, store: &ImageStore) -> Result<Cluster, UpError> {
    let layout = old.layout();
    let client = old.client().await.context(AskSnafu)?;
    let cluster = Cluster::new(layout.clone(), options.nodes, old.kubernetes());
    let record =
        Record { phase: Phase::Up, nodes: options.nodes, kubernetes: old.kubernetes().to_path_buf() };
    let kept = cluster.nodes().len();
    for node in old.nodes().into_iter().skip(kept) {
        let (removed, name) = (node.clone(), node.name());
        blocking(move || removed.remove_now().context(NodeSnafu)).await?;
        let api = Api::<k8s_openapi::api::core::v1::Node>::all(client.clone());
        match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.context(ForgetSnafu { node: name })?),
        }
    }
    kubeconfig::write_all(layout, options.nodes).context(FilesSnafu)?;
    // Before the new nodes start: a run that is cut off among them has nodes that are off, which is a known state.
    record.write(layout).context(FilesSnafu)?;
    let mut off = Vec::new();
    for node in cluster.nodes() {
        if !node.is_running().context(NodeSnafu)? {
            off.push(node);
        }
    }
    let since = Timestamp::now();
    boot(&off, store).await?;
    load(&cluster.nodes(), &options.images).await?;
    join(&off).await?;
    let waited = readiness::wait_for_nodes(&cluster, &client, &off, since, NODE_PATIENCE).await;
    waited.context(ReadinessSnafu)?;
    Ok(cluster)
}

/// Starts from nothing.
async fn start(
    layout: &Layout,
    kubernetes: &Path,
    options: &UpOptions,
    store: &ImageStore,
) -> Result<Cluster, UpError> {
    let step = Step::start("clearing what an earlier cluster left");
    let cleared = layout.clone();
    blocking(move || leftovers::clear(&cleared).context(ClearSnafu)).await?;
    files::remove(&layout.logs()).context(FilesSnafu)?;
    step.done();

    let mut record =
        Record { phase: Phase::Starting, nodes: options.nodes, kubernetes: kubernetes.to_path_buf() };
    record.write(layout).context(FilesSnafu)?;
    kernel_settings::record(layout).context(FilesSnafu)?;
    certificates::issue_all(layout).context(CertificatesSnafu)?;
    kubeconfig::write_all(layout, options.nodes).context(FilesSnafu)?;
    control_plane::write_config(layout).context(FilesSnafu)?;
    dns::write_config(layout).context(FilesSnafu)?;
    copy_program(layout)?;
    network::lay_bridge(layout).context(NetworkSnafu)?;

    let cluster = Cluster::new(layout.clone(), options.nodes, kubernetes);
    let nodes = cluster.nodes();
    // The nodes' container runtimes start while the API server does: together they keep both cores busy.
    let (client, ()) = tokio::try_join!(start_control_plane(&cluster), boot(&nodes, store))?;
    kubelet_access::apply(&client).await.context(KubeletAccessSnafu)?;
    keep_images(&nodes, store).await?;
    load(&nodes, &options.images).await?;
    let step = Step::start("waiting for the nodes");
    join(&nodes).await?;
    dns::apply(&client).await.context(DnsSnafu)?;
    let waited =
        readiness::wait_for_nodes(&cluster, &client, &nodes, Timestamp::UNIX_EPOCH, NODE_PATIENCE).await;
    waited.context(ReadinessSnafu)?;
    step.done();

    record.phase = Phase::Up;
    record.write(layout).context(FilesSnafu)?;
    Ok(cluster)
}

fn copy_program(layout: &Layout) -> Result<(), UpError> {
    let path = layout.program();
    let copied = std::env::current_exe().and_then(|program| std::fs::copy(program, &path));
    copied.context(CopyProgramSnafu { path }).map(drop)
}

async fn start_control_plane(cluster: &Cluster) -> Result<Client, UpError> {
    let step = Step::start("waiting for the API server");
    let cgroups = Cgroups::find().context(GroupsSnafu)?;
    let (layout, kubernetes) = (cluster.layout(), cluster.kubernetes());
    let server = control_plane::api_server(layout, kubernetes);
    for daemon in [control_plane::etcd(layout, kubernetes), server.clone()] {
        daemon.start(&cgroups).context(ControlPlaneSnafu)?;
    }
    let client = cluster.client().await.context(AskSnafu)?;
    let deadline = Instant::now() + API_PATIENCE;
    while !cluster::is_ready(&client).await {
        readiness::check_alive(&cgroups, &server).context(ReadinessSnafu)?;
        ensure!(Instant::now() < deadline, LateSnafu { what: "the API server", patience: API_PATIENCE });
        tokio::time::sleep(POLL).await;
    }
    // Only now: each of them would end or wait for seconds if it found no API server.
    for daemon in cluster.control_plane() {
        daemon.start(&cgroups).context(ControlPlaneSnafu)?;
    }
    step.done();
    Ok(client)
}

/// The stock images, built once, and what unpacking them gave the last time.
fn image_store() -> Result<ImageStore, UpError> {
    let cache = cache::folder().context(CacheSnafu)?;
    let archives = images::stock_images(&cache).context(BuildImagesSnafu)?;
    let paths: Vec<PathBuf> = archives.into_iter().map(|archive| archive.path).collect();
    ImageStore::new(&cache, &paths).context(ImagesSnafu)
}

/// Loads images that change too often to be kept unpacked.
async fn load(nodes: &[Node], archives: &[Archive]) -> Result<(), UpError> {
    let sockets: Vec<PathBuf> = nodes.iter().map(|node| node.layout().containerd_socket()).collect();
    let archives = archives.to_vec();
    blocking(move || images::import(Path::new("ctr"), &sockets, &archives).context(BuildImagesSnafu)).await
}

/// Starts the nodes' container runtimes and loads their images, all nodes at once.
async fn boot(nodes: &[Node], store: &ImageStore) -> Result<(), UpError> {
    let booting = nodes.iter().cloned().map(|node| {
        let store = store.clone();
        blocking(move || {
            store.seed(node.layout()).context(ImagesSnafu)?;
            node.boot().context(NodeSnafu)?;
            if !store.is_loaded(node.layout()).context(ImagesSnafu)? {
                store.images().iter().try_for_each(|image| node.load_image_now(image)).context(NodeSnafu)?;
                store.mark_loaded(node.layout()).context(ImagesSnafu)?;
            }
            Ok(())
        })
    });
    try_join_all(booting).await.map(drop)
}

/// Keeps what a node has unpacked for the next start. Before the node joins: it has no pods yet.
async fn keep_images(nodes: &[Node], store: &ImageStore) -> Result<(), UpError> {
    let Some(node) = nodes.first().cloned().filter(|_| !store.is_kept()) else { return Ok(()) };
    let store = store.clone();
    blocking(move || {
        node.stop_containerd().context(NodeSnafu)?;
        store.keep(node.layout()).context(ImagesSnafu)?;
        node.boot().context(NodeSnafu)
    })
    .await
}

async fn join(nodes: &[Node]) -> Result<(), UpError> {
    let joining = nodes.iter().cloned().map(|node| blocking(move || node.join().context(NodeSnafu)));
    try_join_all(joining).await.map(drop)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, UpError> + Send + 'static,
) -> Result<T, UpError> {
    tokio::task::spawn_blocking(work).await.context(CutOffSnafu)?
}
