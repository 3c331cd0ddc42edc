//! What can go wrong while volumes are made, grown and removed.

use std::io;
use std::path::PathBuf;

use snafu::Snafu;

use crate::command::CommandError;

/// A failure of the storage of the local cluster.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub(super)))]
pub enum StorageError {
    /// A file or directory of a volume could not be changed.
    #[snafu(display("failed to {action} {}", path.display()))]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A tool that works on disks failed.
    #[snafu(display("failed to {action} the disk of volume {volume}"))]
    Disk {
        /// What was tried.
        action: &'static str,
        /// The volume.
        volume: String,
        /// What the tool said.
        source: CommandError,
    },
    /// The disk of a volume is not attached, so it cannot grow.
    #[snafu(display("failed to find the loop device of volume {volume}"))]
    NotAttached {
        /// The volume.
        volume: String,
    },
    /// Something left from an earlier run could not be undone.
    #[snafu(display("failed to release {what}"))]
    Release {
        /// The mount point or device.
        what: String,
        /// What the tool said.
        source: CommandError,
    },
    /// The API server refused a call.
    #[snafu(display("failed to {action} {object}"))]
    Api {
        /// What was tried.
        action: &'static str,
        /// Kind and name.
        object: String,
        /// What the API server said.
        #[snafu(source(from(kube::Error, Box::new)))]
        source: Box<kube::Error>,
    },
    /// Work on a disk was cut off.
    #[snafu(display("failed to finish work on a disk"))]
    CutOff {
        /// Why.
        source: tokio::task::JoinError,
    },
}
