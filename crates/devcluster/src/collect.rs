//! Gathers all that helps to understand a failure into one folder.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use snafu::{ResultExt, Snafu};

use crate::cluster::Cluster;
use crate::files::{self, FileError};
use crate::node;

/// How long one question to a cluster in trouble may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something could not be kept.
#[derive(Debug, Snafu)]
pub enum CollectError {
    /// A file of the collection.
    #[snafu(display("failed to keep a part of the collection"))]
    Keep {
        /// The cause.
        source: FileError,
    },
    /// A log.
    #[snafu(display("failed to copy {}", path.display()))]
    Copy {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Gathers the logs of components and pods, events and objects into `folder`. With no `namespaces` all are taken.
/// A cluster that does not answer still gives its logs; what was asked in vain is noted in place of the answer.
pub(crate) async fn collect(
    cluster: &Cluster,
    folder: &Path,
    namespaces: &[&str],
) -> Result<(), CollectError> {
    for log in files::list(&cluster.layout().logs()).context(KeepSnafu)? {
        copy(&log, &folder.join("components").join(log.file_name().unwrap_or_default()))?;
    }
    let scopes: Vec<Option<&str>> =
        if namespaces.is_empty() { vec![None] } else { namespaces.iter().copied().map(Some).collect() };
    for namespace in &scopes {
        copy_pod_logs(cluster, folder, *namespace)?;
    }
    let ask =
        async |file: &str, arguments: &[&str]| keep_answer(cluster, &folder.join(file), arguments).await;
    let global = global_kinds(cluster).await;
    ask("cluster.yaml", &["get", &global, "-o", "yaml"]).await?;
    ask("nodes.txt", &["describe", "nodes"]).await?;
    let kinds = namespaced_kinds(cluster).await;
    for namespace in scopes {
        let scope =
            namespace.map_or_else(|| vec!["--all-namespaces"], |namespace| vec!["--namespace", namespace]);
        let name = namespace.unwrap_or("all-namespaces");
        let with_scope = |arguments: &[&'static str]| [arguments, &scope].concat();
        ask(&format!("{name}/pods.txt"), &with_scope(&["get", "pods", "-o", "wide"])).await?;
        let events = with_scope(&["get", "events", "--sort-by=.metadata.creationTimestamp"]);
        ask(&format!("{name}/events.txt"), &events).await?;
        ask(&format!("{name}/pods-described.txt"), &with_scope(&["describe", "pods"])).await?;
        let mut objects = with_scope(&["get", "-o", "yaml"]);
        objects.push(&kinds);
        ask(&format!("{name}/objects.yaml"), &objects).await?;
    }
    Ok(())
}

/// Everything but Secrets: what is collected is sent around.
async fn namespaced_kinds(cluster: &Cluster) -> String {
    let fallback = "pods,services,configmaps,statefulsets,deployments,persistentvolumeclaims";
    kinds(cluster, "true", fallback, &["secrets", "events", "events.events.k8s.io"]).await
}

async fn global_kinds(cluster: &Cluster) -> String {
    kinds(
        cluster,
        "false",
        "nodes,persistentvolumes,storageclasses,namespaces",
        &["customresourcedefinitions.apiextensions.k8s.io"],
    )
    .await
}

async fn kinds(cluster: &Cluster, namespaced: &str, fallback: &str, without: &[&str]) -> String {
    let scope = format!("--namespaced={namespaced}");
    let listed = ask(cluster, &["api-resources", "--verbs=list,get", &scope, "-o", "name"]).await;
    let names = listed.lines().map(str::trim).filter(|name| {
        !name.is_empty()
            && !name.contains(' ')
            && !without.contains(name)
            && !name.ends_with("metrics.k8s.io")
    });
    let names: Vec<&str> = names.collect();
    if names.is_empty() { fallback.to_owned() } else { names.join(",") }
}

async fn keep_answer(cluster: &Cluster, file: &Path, arguments: &[&str]) -> Result<(), CollectError> {
    files::write(file, ask(cluster, arguments).await).context(KeepSnafu)
}

async fn ask(cluster: &Cluster, arguments: &[&str]) -> String {
    let mut kubectl = cluster.kubectl();
    kubectl.args(arguments).arg("--request-timeout=10s");
    match tokio::time::timeout(PATIENCE, kubectl.output()).await {
        Ok(Ok(output)) => {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            text
        }
        Ok(Err(error)) => format!("failed to run kubectl: {error}\n"),
        Err(_) => format!("failed to get an answer within {PATIENCE:?}\n"),
    }
}

/// From the nodes' disks, so that pods of dead nodes and earlier runs of containers are there too.
fn copy_pod_logs(cluster: &Cluster, folder: &Path, namespace: Option<&str>) -> Result<(), CollectError> {
    for node in cluster.nodes() {
        let root = node.layout().pod_logs();
        for log in node::pod_logs(node.layout(), namespace) {
            let inside = log.strip_prefix(&root).unwrap_or(&log);
            copy(&log, &folder.join("pod-logs").join(node.name()).join(inside))?;
        }
    }
    Ok(())
}

/// A log may be rotated away while it is looked at; that is no failure.
fn copy(from: &Path, to: &Path) -> Result<(), CollectError> {
    if let Some(folder) = to.parent() {
        files::create_folder(folder).context(KeepSnafu)?;
    }
    match fs::copy(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context(CopySnafu { path: from }),
        _ => Ok(()),
    }
}
