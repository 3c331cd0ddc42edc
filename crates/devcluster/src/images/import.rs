//! Brings images to nodes: each node has a containerd of its own.

use std::path::{Path, PathBuf};
use std::thread;

use snafu::ResultExt;

use super::error::{ImageError, ImportSnafu, ListSnafu};
use super::store::Archive;
use crate::command;

/// The namespace in which Kubernetes finds images.
const NAMESPACE: &str = "k8s.io";

/// Imports `archives` into the containerd behind every socket, all nodes at once. A node that has an image already is left alone.
pub fn import(ctr: &Path, sockets: &[PathBuf], archives: &[Archive]) -> Result<(), ImageError> {
    thread::scope(|scope| {
        let nodes: Vec<_> =
            sockets.iter().map(|socket| scope.spawn(|| import_into_node(ctr, socket, archives))).collect();
        nodes.into_iter().try_for_each(|node| match node.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

fn import_into_node(ctr: &Path, socket: &Path, archives: &[Archive]) -> Result<(), ImageError> {
    let run = |arguments: &[&str]| {
        let socket = socket.to_string_lossy();
        let common = ["--address", &socket, "--namespace", NAMESPACE, "images"];
        command::run(&ctr.to_string_lossy(), common.into_iter().chain(arguments.iter().copied()))
    };
    let listing = run(&["list"]).context(ListSnafu { socket })?;
    for archive in archives.iter().filter(|archive| !has_image(&listing, archive)) {
        run(&["import", &archive.path.to_string_lossy()])
            .context(ImportSnafu { reference: &archive.reference, socket })?;
        tracing::debug!(image = archive.reference, node = %socket.display(), "imported image");
    }
    Ok(())
}

/// Whether the output of `ctr images list` has the image with this very content.
fn has_image(listing: &str, archive: &Archive) -> bool {
    listing.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(&archive.reference) && words.any(|word| word == archive.digest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
REF                         TYPE                                       DIGEST     SIZE     PLATFORMS   LABELS
docker.io/valkey/valkey:9.1 application/vnd.oci.image.manifest.v1+json sha256:abc 31.2 MiB linux/amd64 io.cri-containerd.image=managed
";

    fn archive(reference: &str, digest: &str) -> Archive {
        Archive { reference: reference.into(), path: PathBuf::new(), digest: digest.into() }
    }

    #[test]
    fn an_image_is_known_by_name_and_content() {
        assert!(has_image(LISTING, &archive("docker.io/valkey/valkey:9.1", "sha256:abc")));
        assert!(!has_image(LISTING, &archive("docker.io/valkey/valkey:9.1", "sha256:def")));
        assert!(!has_image(LISTING, &archive("docker.io/valkey/valkey:8.1", "sha256:abc")));
    }
}
