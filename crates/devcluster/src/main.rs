//! `devcluster`: a real multi-node Kubernetes on this machine.

use std::error::Error;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, process};

use clap::{Parser, Subcommand};
use devcluster::images::{self, Archive};
use devcluster::layout::Layout;
use devcluster::{Cluster, UpOptions};
use tokio::signal::unix::{SignalKind, signal};

/// The image of our programs, by the name that the manifests in `deploy/` use.
const OUR_IMAGE: &str = "valkey-operator:dev";

#[derive(Parser)]
#[command(name = "devcluster", about = "A real multi-node Kubernetes on this machine")]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start the cluster; one that runs is left as it is
    Up {
        /// How many nodes
        #[arg(long, default_value_t = 3)]
        nodes: u8,
        /// Our programs, to have their image in every node
        #[command(flatten)]
        programs: Programs,
    },
    /// Build all images into the cache; a cluster that runs gets them at once
    Images {
        /// Our programs
        #[command(flatten)]
        programs: Programs,
    },
    /// Give claims their volumes (started by `up`)
    Provisioner {
        /// How to reach the cluster
        #[arg(long)]
        kubeconfig: PathBuf,
        /// Where the disks are
        #[arg(long)]
        folder: PathBuf,
    },
    /// Take the cluster down, whole or half started
    Down,
    /// Show what runs and how much memory it takes
    Status,
    /// List what is left of a cluster on this machine; fails if anything is
    CheckClean,
    /// Run kubectl against the cluster
    Kubectl {
        /// kubectl's arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Gather logs, events and objects into a folder
    Collect {
        /// The folder
        folder: PathBuf,
        /// Only these namespaces
        #[arg(long = "namespace", short)]
        namespaces: Vec<String>,
    },
    /// Mend everything that was broken on purpose, as by a test that was killed
    Heal,
    /// Switch one node off or on
    Node {
        #[command(subcommand)]
        action: NodeAction,
    },
}

/// The programs of our image: both, or no image at all.
#[derive(clap::Args)]
struct Programs {
    /// The operator's program
    #[arg(long, requires = "agent")]
    operator: Option<PathBuf>,
    /// The program for the pods of servers
    #[arg(long, requires = "operator")]
    agent: Option<PathBuf>,
}

impl Programs {
    fn image(&self) -> Result<Option<Archive>, Box<dyn Error>> {
        let (Some(operator), Some(agent)) = (&self.operator, &self.agent) else { return Ok(None) };
        let cache = devcluster::cache::folder()?;
        let programs = [(operator.as_path(), "/valkey-operator"), (agent.as_path(), "/valkey-agent")];
        Ok(Some(images::from_programs(&cache, OUR_IMAGE, &programs)?))
    }
}

#[derive(Subcommand)]
enum NodeAction {
    /// End everything on the node at once, as a loss of power would
    Stop {
        /// The node's name
        name: String,
    },
    /// Start the node with the disk it had
    Start {
        /// The node's name
        name: String,
    },
    /// End only the kubelet
    StopKubelet {
        /// The node's name
        name: String,
    },
    /// Start the kubelet again
    StartKubelet {
        /// The node's name
        name: String,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    // The client library calls every early try an error.
    let filter = tracing_subscriber::EnvFilter::new("info,kube_client=off");
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
    match run(Arguments::parse().action).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The error with all its causes, outermost first.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

async fn run(action: Action) -> Result<ExitCode, Box<dyn Error>> {
    match action {
        Action::Up { nodes, programs } => {
            let images = programs.image()?.into_iter().collect();
            devcluster::up(&UpOptions { nodes, images, checkout: env::current_dir()? }).await?;
            println!("export KUBECONFIG=$PWD/.devcluster/kubeconfig PATH=$PWD/.devcluster/bin:$PATH");
        }
        Action::Images { programs } => load_images(&programs).await?,
        Action::Provisioner { kubeconfig, folder } => {
            let client = devcluster::client(&kubeconfig).await?;
            let mut terminate = signal(SignalKind::terminate())?;
            devcluster::storage::run(client, &folder, async move {
                let _ = terminate.recv().await;
            })
            .await?;
        }
        Action::Down => devcluster::down(&env::current_dir()?).await?,
        Action::Status => {
            let status = cluster()?.status().await?;
            println!("{status}");
            return Ok(if status.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Action::CheckClean => {
            let left = devcluster::find_leftovers(&Layout::default())?;
            for item in &left {
                println!("{item}");
            }
            return Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Action::Kubectl { arguments } => {
            let cluster = cluster()?;
            let mut kubectl = process::Command::new(cluster.kubernetes());
            kubectl.arg("kubectl").args(arguments).env("KUBECONFIG", cluster.kubeconfig());
            // Only comes back if it could not be started.
            return Err(kubectl.exec().into());
        }
        Action::Collect { folder, namespaces } => {
            let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
            cluster()?.collect(&folder, &namespaces).await?;
        }
        Action::Heal => println!("{} healed", cluster()?.faults()?.heal_all()?),
        Action::Node { action } => match action {
            NodeAction::Stop { name } => cluster()?.node(&name)?.power_off().await?,
            NodeAction::Start { name } => cluster()?.node(&name)?.power_on().await?,
            NodeAction::StopKubelet { name } => cluster()?.node(&name)?.stop_kubelet().await?,
            NodeAction::StartKubelet { name } => cluster()?.node(&name)?.start_kubelet().await?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

async fn load_images(programs: &Programs) -> Result<(), Box<dyn Error>> {
    devcluster::prepare_machine()?;
    let cache = devcluster::cache::folder()?;
    let mut archives = images::stock_images(&cache)?;
    for version in [images::ValkeyVersion::V9_1, images::ValkeyVersion::V8_1] {
        // Tests start real servers on this machine, too.
        images::host_programs(&cache, version)?;
    }
    archives.extend(programs.image()?);
    for archive in &archives {
        println!("{} {}", archive.reference, archive.path.display());
    }
    if let Some(cluster) = Cluster::find()?
        && cluster.is_answering().await?
    {
        let sockets: Vec<PathBuf> =
            cluster.nodes().iter().map(|node| node.layout().containerd_socket()).collect();
        images::import(Path::new("ctr"), &sockets, &archives)?;
    }
    Ok(())
}

fn cluster() -> Result<Cluster, Box<dyn Error>> {
    Cluster::find()?.ok_or_else(|| "failed to find a cluster: run `devcluster up`".into())
}
