//! Finds the processes of a container from what Kubernetes tells about its pod.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use snafu::OptionExt;

use super::error::{FaultError, NoGroupSnafu, NoProcessSnafu, NotRunningSnafu};
use super::process::Process;

const MOUNTS: &str = "/proc/self/mountinfo";

/// The id the runtime gave to a running container of a pod, an init container or sidecar included.
pub fn container_id(pod: &Pod, container: &str) -> Result<String, FaultError> {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    let init_containers = status.and_then(|status| status.init_container_statuses.as_ref());
    let mut all = containers.into_iter().chain(init_containers).flatten();
    all.find(|status| status.name == container)
        .filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
        .and_then(|status| status.container_id.as_deref())
        .and_then(|id| id.split_once("://"))
        .map(|(_, id)| id.to_owned())
        .with_context(|| NotRunningSnafu { pod: pod.name_any(), container })
}

/// The control group of one container, or of a whole pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerGroup {
    /// Its folder in the hierarchy that can freeze processes.
    pub folder: PathBuf,
}

impl ContainerGroup {
    /// The group of a container by the runtime's id.
    pub fn of_container(id: &str) -> Result<Self, FaultError> {
        Self::named(id)
    }

    /// The group of a running container of a pod.
    pub fn of(pod: &Pod, container: &str) -> Result<Self, FaultError> {
        Self::of_container(&container_id(pod, container)?)
    }

    /// The group of all containers of a pod.
    pub fn of_pod(pod: &Pod) -> Result<Self, FaultError> {
        Self::named(&format!("pod{}", pod.uid().unwrap_or_default()))
    }

    /// The container's main process. Probes and `exec` start later ones beside it, so it is the oldest.
    pub fn main_process(&self) -> Result<Process, FaultError> {
        let listed = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        let processes = listed.lines().filter_map(|line| Process::running(line.parse().ok()?));
        processes
            .min_by_key(|process| (process.started, process.pid))
            .context(NoProcessSnafu { group: &self.folder })
    }

    fn named(name: &str) -> Result<Self, FaultError> {
        let mounts = fs::read_to_string(MOUNTS).unwrap_or_default();
        let root = hierarchy(&mounts).context(NoGroupSnafu { name })?;
        let folder = find(&root, name).context(NoGroupSnafu { name })?;
        Ok(Self { folder })
    }
}

/// Where groups can be frozen: the freezer of control groups version 1, or else version 2.
fn hierarchy(mounts: &str) -> Option<PathBuf> {
    let of_type = |wanted: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            let kind = after.next()?;
            let has_option = after.nth(1)?.split(',').any(|word| word == option);
            (kind == wanted && has_option).then(|| before.split(' ').nth(4).map(PathBuf::from))?
        })
    };
    of_type("cgroup", "freezer").or_else(|| of_type("cgroup2", "rw"))
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let inner = fs::read_dir(folder).ok()?.flatten();
    let folders = inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut deeper = Vec::new();
    for entry in folders {
        if entry.file_name() == name {
            return Some(entry.path());
        }
        deeper.push(entry.path());
    }
    deeper.iter().find_map(|folder| find(folder, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(state: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "node-0", "uid": "u" },
            "status": {
                "containerStatuses": [{
                    "name": "server", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "containerID": "containerd://abc", "state": state,
                }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn only_a_running_container_has_an_id() {
        let running = pod(&json!({ "running": {} }));
        assert_eq!(container_id(&running, "server").unwrap(), "abc");
        let ended = pod(&json!({ "terminated": { "exitCode": 1 } }));
        let error = container_id(&ended, "server").unwrap_err();
        assert_eq!(error.to_string(), "failed to find the running container server of pod node-0");
        container_id(&running, "other").unwrap_err();
    }

    #[test]
    fn the_freezer_is_found_in_both_versions() {
        let one = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                   32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                   37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                   41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(hierarchy(one).unwrap(), Path::new("/sys/fs/cgroup/freezer"));
        let two = "41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(hierarchy(two).unwrap(), Path::new("/sys/fs/cgroup"));
        assert_eq!(hierarchy(""), None);
    }

    #[test]
    fn a_group_is_found_at_any_depth() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("node-1/kubepods/burstable/podu/abc");
        fs::create_dir_all(&group).unwrap();
        assert_eq!(find(root.path(), "abc").unwrap(), group);
        assert_eq!(find(root.path(), "ab"), None);
    }
}
