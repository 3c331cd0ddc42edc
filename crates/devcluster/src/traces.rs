//! Removes the few files that the cluster's programs write outside of its folders, whatever they are configured to.

use std::fs;
use std::path::Path;

use crate::files::{self, FileError};
use crate::layout::{Layout, MAX_NODES, NodeLayout, PREFIX};

/// Where each kubelet, wherever it has its folder, links the logs of containers.
const LINKED_LOGS: &str = "/var/log/containers";
/// Where each kubelet waits for device plugins.
const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";
/// Where the pod network's library notes each pod.
const NETWORK_NOTES: &str = "/var/lib/cni/results";

/// Removes all of them. Nothing of the cluster may run, and its run folder must still be there.
pub(crate) fn remove_all(layout: &Layout) -> Result<(), FileError> {
    for node in layout.nodes(MAX_NODES) {
        remove_shim_sockets(&node)?;
    }
    remove_linked_logs(layout)?;
    remove_network_notes()?;
    files::remove(&Path::new(DEVICE_PLUGINS).join("kubelet.sock"))?;
    // Those that hold something else are not ours and stay: only an empty folder is removed.
    let folders = [DEVICE_PLUGINS, "/var/lib/kubelet", LINKED_LOGS, NETWORK_NOTES, "/var/lib/cni"];
    for folder in folders {
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// containerd puts the sockets of its shims into one fixed folder and notes which in the shims' own folders.
pub(crate) fn remove_shim_sockets(node: &NodeLayout) -> Result<(), FileError> {
    let shims = node.containerd_state().join("io.containerd.runtime.v2.task/k8s.io");
    for shim in files::list(&shims)? {
        let address = files::read(&shim.join("address"))?.unwrap_or_default();
        if let Some(socket) = shim_socket(&address) {
            files::remove(Path::new(socket))?;
        }
    }
    Ok(())
}

fn shim_socket(address: &str) -> Option<&str> {
    let socket = address.trim().strip_prefix("unix://")?;
    socket.starts_with("/run/containerd/s/").then_some(socket)
}

fn remove_linked_logs(layout: &Layout) -> Result<(), FileError> {
    for link in files::list(Path::new(LINKED_LOGS))? {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(layout.state())) {
            files::remove(&link)?;
        }
    }
    Ok(())
}

/// The notes of a pod's loopback carry no name of ours, but the same id as those of its network.
fn remove_network_notes() -> Result<(), FileError> {
    let folder = Path::new(NETWORK_NOTES);
    for note in files::list(folder)? {
        let name = note.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(id) = noted_pod(&name) {
            files::remove(&folder.join(format!("cni-loopback-{id}-lo")))?;
            files::remove(&note)?;
        }
    }
    Ok(())
}

fn noted_pod(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.strip_prefix("-pods-")?.strip_suffix("-eth0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_in_the_shims_folder_are_taken() {
        assert_eq!(shim_socket("unix:///run/containerd/s/0e8e"), Some("/run/containerd/s/0e8e"));
        assert_eq!(shim_socket("unix:///etc/passwd"), None);
        assert_eq!(shim_socket(""), None);
    }

    #[test]
    fn only_notes_of_the_clusters_network_are_taken() {
        assert_eq!(noted_pod("vkdev-pods-c72b-eth0"), Some("c72b"));
        assert_eq!(noted_pod("cni-loopback-c72b-lo"), None);
        assert_eq!(noted_pod("kindnet-c72b-eth0"), None);
    }
}
