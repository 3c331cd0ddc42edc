//! What a checkout gets so that people find the cluster: `.devcluster/kubeconfig` and `.devcluster/bin/kubectl`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::cluster::Cluster;
use crate::files::{self, FileError};

fn kubeconfig(checkout: &Path) -> PathBuf {
    checkout.join(".devcluster/kubeconfig")
}

/// Writes both.
pub(crate) fn write(cluster: &Cluster, checkout: &Path) -> Result<(), FileError> {
    let content = files::read(&cluster.kubeconfig())?.unwrap_or_default();
    files::write(&kubeconfig(checkout), content)?;
    let kubectl = checkout.join(".devcluster/bin/kubectl");
    if std::fs::read_link(&kubectl).is_ok_and(|target| target == cluster.kubernetes()) {
        return Ok(());
    }
    if let Some(folder) = kubectl.parent() {
        files::create_folder(folder)?;
    }
    files::remove(&kubectl)?;
    // Started under this name the program is kubectl.
    symlink(cluster.kubernetes(), &kubectl).map_err(|source| FileError::Write { path: kubectl, source })
}

/// Removes the kubeconfig, which leads nowhere once the cluster is down. kubectl is of use for other clusters too.
pub(crate) fn remove(checkout: &Path) -> Result<(), FileError> {
    files::remove(&kubeconfig(checkout))
}
