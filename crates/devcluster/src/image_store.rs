//! Keeps a containerd folder with all images unpacked, so that the nodes of the next cluster start with it.
//!
//! Unpacking costs seconds per node, and removing what was unpacked even more. The copies share the files of layers and
//! blobs (hard links), which containerd never changes in place; its databases it does, so each copy has its own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};
use snafu::{ResultExt, Snafu};

use crate::cgroups::{CgroupError, Cgroups};
use crate::files::{self, FileError};
use crate::layout::NodeLayout;
use crate::process::{self, ChoreError};

/// Folders whose files are never changed in place.
const SHARED: [&str; 2] = ["blobs", "snapshots"];

/// The images could not be kept or brought to a node.
#[derive(Debug, Snafu)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum StoreError {
    #[snafu(display("failed to look at the image {}", path.display()))]
    Image { path: PathBuf, source: std::io::Error },
    #[snafu(display("failed to handle kept images"))]
    Files { source: FileError },
    #[snafu(display("failed to copy {}", path.display()))]
    Copy { path: PathBuf, source: std::io::Error },
    #[snafu(display("failed to keep images"))]
    Link { source: ChoreError },
    #[snafu(display("failed to find the machine's control groups"))]
    Groups { source: CgroupError },
}

/// The unpacked form of a set of image archives.
#[derive(Clone, Debug)]
pub(crate) struct ImageStore {
    images: Vec<PathBuf>,
    key: String,
    folder: PathBuf,
}

impl ImageStore {
    /// The store of `images` in the cache `cache`.
    pub(crate) fn new(cache: &Path, images: &[PathBuf]) -> Result<Self, StoreError> {
        let mut hash = Sha256::new();
        for path in images {
            let metadata = fs::metadata(path).context(ImageSnafu { path })?;
            let changed = metadata.modified().context(ImageSnafu { path })?;
            let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            hash.update(format!("{} {} {changed}\n", path.display(), metadata.len()));
        }
        let key =
            hash.finalize().iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        Ok(Self { images: images.to_vec(), key, folder: cache.join("containerd") })
    }

    /// The archives.
    pub(crate) fn images(&self) -> &[PathBuf] {
        &self.images
    }

    fn kept(&self) -> PathBuf {
        self.folder.join(&self.key)
    }

    /// Whether there is a copy to start from.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept().exists()
    }

    /// Whether the node has all images of the store.
    pub(crate) fn is_loaded(&self, node: &NodeLayout) -> Result<bool, StoreError> {
        let noted = files::read(&note(node)).context(FilesSnafu)?;
        Ok(noted.is_some_and(|key| key == self.key))
    }

    /// Notes that the node has all images of the store.
    pub(crate) fn mark_loaded(&self, node: &NodeLayout) -> Result<(), StoreError> {
        files::write(&note(node), &self.key).context(FilesSnafu)
    }

    /// Gives a node without any images those that were kept. Its containerd must not run.
    pub(crate) fn seed(&self, node: &NodeLayout) -> Result<(), StoreError> {
        let root = node.containerd_root();
        if root.exists() || !self.is_kept() {
            return Ok(());
        }
        match copy(&self.kept(), &root) {
            Ok(()) => self.mark_loaded(node),
            // The cache may be on another file system, where nothing can be shared: the images are then unpacked.
            Err(StoreError::Link { .. }) => files::remove(&root).context(FilesSnafu),
            Err(other) => Err(other),
        }
    }

    /// Keeps the node's images, and those of no other set. The node must not have run any pod, nor its containerd run.
    pub(crate) fn keep(&self, node: &NodeLayout) -> Result<(), StoreError> {
        files::remove(&self.folder).context(FilesSnafu)?;
        files::create_folder(&self.folder).context(FilesSnafu)?;
        match copy(&node.containerd_root(), &self.kept()) {
            Err(StoreError::Link { .. }) => Ok(()),
            copied => copied,
        }
    }
}

/// On the node's disk, as the images are.
fn note(node: &NodeLayout) -> PathBuf {
    node.disk().join("images")
}

/// Under another name until it is whole.
fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let unfinished = to.with_extension("unfinished");
    files::remove(&unfinished).context(FilesSnafu)?;
    if let Some(folder) = to.parent() {
        files::create_folder(folder).context(FilesSnafu)?;
    }
    // cp knows how to keep owners, modes and attributes of folders, and links files with a system call each.
    let cgroups = Cgroups::find().context(GroupsSnafu)?;
    let words = [OsStr::new("cp"), OsStr::new("--archive"), OsStr::new("--link")];
    let linked =
        process::run_chore(&cgroups, words.into_iter().chain([from.as_os_str(), unfinished.as_os_str()]));
    if linked.is_err() {
        files::remove(&unfinished).context(FilesSnafu)?;
    }
    linked.context(LinkSnafu)?;
    unshare(&unfinished)?;
    fs::rename(&unfinished, to).context(CopySnafu { path: to })
}

/// Gives the copy its own files, except in [`SHARED`] folders.
fn unshare(folder: &Path) -> Result<(), StoreError> {
    for path in files::list(folder).context(FilesSnafu)? {
        let kind = path.symlink_metadata().context(CopySnafu { path: &path })?.file_type();
        let is_shared = path.file_name().is_some_and(|name| SHARED.iter().any(|shared| name == *shared));
        if kind.is_dir() && !is_shared {
            unshare(&path)?;
        } else if kind.is_file() {
            let own = path.with_extension("own");
            fs::copy(&path, &own).context(CopySnafu { path: &path })?;
            fs::rename(&own, &path).context(CopySnafu { path: &path })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::command;

    #[test]
    fn layers_are_shared_and_databases_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        files::write(&from.join("overlayfs/metadata.db"), "database").unwrap();
        files::write(&from.join("overlayfs/snapshots/1/fs/bin/server"), "layer").unwrap();
        command::run("cp", ["--archive".as_ref(), "--link".as_ref(), from.as_os_str(), to.as_os_str()])
            .unwrap();
        unshare(&to).unwrap();
        let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
        let same = |file: &str| inode(from.join(file)) == inode(to.join(file));
        assert!(same("overlayfs/snapshots/1/fs/bin/server"));
        assert!(!same("overlayfs/metadata.db"));
        assert_eq!(fs::read_to_string(to.join("overlayfs/metadata.db")).unwrap(), "database");
    }

    #[test]
    fn another_set_of_images_is_another_store() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image.tar");
        fs::write(&image, "one").unwrap();
        let one = ImageStore::new(folder.path(), std::slice::from_ref(&image)).unwrap();
        fs::write(&image, "another").unwrap();
        let other = ImageStore::new(folder.path(), &[image]).unwrap();
        assert_ne!(one.key, other.key);
    }
}
