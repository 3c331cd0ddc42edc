//! Which cluster the demo and the tests use: the user's own, if `KUBECONFIG` names it, else the local one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::cluster::{Cluster, ClusterError};
use crate::layout::Layout;

/// A cluster to work on.
#[derive(Clone, Debug)]
pub enum Target {
    /// The machine's own cluster.
    Local(Cluster),
    /// A cluster of the user's: nothing but what the API offers may be touched. The value of `KUBECONFIG` as it is,
    /// which may be a list of files.
    External(PathBuf),
}

impl Target {
    /// The user's cluster if `KUBECONFIG` is set and does not just name the local one; else the local one if it is
    /// up.
    pub fn find() -> Result<Option<Self>, ClusterError> {
        match external(env::var_os("KUBECONFIG"), &Layout::default().kubeconfig("admin")) {
            Some(path) => Ok(Some(Self::External(path))),
            None => Ok(Cluster::find()?.map(Self::Local)),
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

/// People who work with the local cluster set `KUBECONFIG` to its file, to the copy in a checkout, or to a link to one of
/// them. `hack/cluster-env.sh` has the same rule. A list of files is kubectl's to read, and so never the local cluster.
fn external(variable: Option<OsString>, local: &Path) -> Option<PathBuf> {
    let path = PathBuf::from(variable.filter(|value| !value.is_empty())?);
    let resolved = resolve(&path);
    let is_copy = |path: &Path| path.ends_with(".devcluster/kubeconfig");
    let names_local = !is_list(&path) && (is_copy(&path) || is_copy(&resolved) || resolved == resolve(local));
    (!names_local).then_some(path)
}

fn is_list(path: &Path) -> bool {
    env::split_paths(path).count() > 1
}

fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The one file to read where `KUBECONFIG` may be a list: the first that exists.
pub(crate) fn first_file(kubeconfig: &Path) -> PathBuf {
    let mut files = env::split_paths(kubeconfig);
    let first = files.find(|file| file.is_file());
    first.filter(|_| !kubeconfig.exists()).unwrap_or_else(|| kubeconfig.to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_foreign_kubeconfig_is_external() {
        let local = Path::new("/var/lib/valkey-devcluster/kubeconfigs/admin");
        let external = |value: &str| external(Some(value.into()), local);
        assert_eq!(external("/home/me/.kube/config").as_deref(), Some(Path::new("/home/me/.kube/config")));
        assert_eq!(external("/src/valkey-operator/.devcluster/kubeconfig"), None);
        assert_eq!(external(".devcluster/kubeconfig"), None);
        assert_eq!(external("/var/lib/valkey-devcluster/kubeconfigs/admin"), None);
        assert_eq!(external(""), None);
        let list = "/home/me/.kube/config:/src/valkey-operator/.devcluster/kubeconfig";
        assert_eq!(external(list).as_deref(), Some(Path::new(list)));
    }

    #[test]
    fn a_link_to_the_local_cluster_is_the_local_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let local = folder.path().join("admin");
        let copy = folder.path().join("checkout/.devcluster/kubeconfig");
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        for (name, file) in [("to-local", &local), ("to-copy", &copy)] {
            fs::write(file, "").unwrap();
            let link = folder.path().join(name);
            symlink(file, &link).unwrap();
            assert_eq!(external(Some(link.into()), &local), None, "{name}");
        }
    }

    #[test]
    fn of_a_list_the_first_file_that_exists_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let [missing, one, two] = ["missing", "one", "two"].map(|name| folder.path().join(name));
        fs::write(&one, "").unwrap();
        fs::write(&two, "").unwrap();
        let list = |files: &[&PathBuf]| PathBuf::from(env::join_paths(files).unwrap());
        assert_eq!(first_file(&list(&[&missing, &one, &two])), one);
        assert_eq!(first_file(&two), two);
        assert_eq!(first_file(&missing), missing);
    }
}
