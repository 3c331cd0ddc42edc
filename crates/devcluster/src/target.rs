//! Which cluster the demo and the tests use: the user's own, if `KUBECONFIG` names it, else the local one.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cluster::{Cluster, ClusterError};

/// A cluster to work on.
#[derive(Clone, Debug)]
pub enum Target {
    /// The machine's own cluster.
    Local(Cluster),
    /// A cluster of the user's: nothing but what the API offers may be touched.
    External(PathBuf),
}

impl Target {
    /// The user's cluster if `KUBECONFIG` is set and does not just name the local one; else the local one if it is
    /// up.
    pub fn find() -> Result<Option<Self>, ClusterError> {
        let local = Cluster::find()?;
        let own = local.as_ref().map(Cluster::kubeconfig);
        match external(env::var_os("KUBECONFIG"), own.as_deref()) {
            Some(path) => Ok(Some(Self::External(path))),
            None => Ok(local.map(Self::Local)),
        }
    }

    /// The kubeconfig that leads to it.
    pub fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Local(cluster) => cluster.kubeconfig(),
            Self::External(path) => path.clone(),
        }
    }
}

/// People who work with the local cluster set `KUBECONFIG` to its file, or to the copy in the checkout.
fn external(variable: Option<OsString>, local: Option<&Path>) -> Option<PathBuf> {
    let path = PathBuf::from(variable.filter(|value| !value.is_empty())?);
    let names_local = path.ends_with(".devcluster/kubeconfig") || Some(path.as_path()) == local;
    (!names_local).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_foreign_kubeconfig_is_external() {
        let local = Path::new("/var/lib/valkey-devcluster/kubeconfigs/admin");
        let external = |value: &str| external(Some(value.into()), Some(local));
        assert_eq!(external("/home/me/.kube/config").as_deref(), Some(Path::new("/home/me/.kube/config")));
        assert_eq!(external("/src/valkey-operator/.devcluster/kubeconfig"), None);
        assert_eq!(external("/var/lib/valkey-devcluster/kubeconfigs/admin"), None);
        assert_eq!(external(""), None);
    }
}
