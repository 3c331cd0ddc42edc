//! What can go wrong while something is broken on purpose.

use std::io;
use std::path::PathBuf;

use snafu::Snafu;

use crate::command::CommandError;

/// A fault could not be put in place or undone.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub(super)))]
pub enum FaultError {
    /// A record of faults could not be kept.
    #[snafu(display("failed to {action} the record of faults {}", path.display()))]
    Record {
        /// What was tried.
        action: &'static str,
        /// The record.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No container of that name is known for the pod.
    #[snafu(display("failed to find the running container {container} of pod {pod}"))]
    NotRunning {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// A container or pod has no control group on this machine.
    #[snafu(display("failed to find the control group {name}"))]
    NoGroup {
        /// The last part of the group's path.
        name: String,
    },
    /// A control group has no live process.
    #[snafu(display("failed to find a process in {}", group.display()))]
    NoProcess {
        /// The group.
        group: PathBuf,
    },
    /// A control group could not be frozen or thawed.
    #[snafu(display("failed to {action} {}", group.display()))]
    Freezer {
        /// What was tried.
        action: &'static str,
        /// The group.
        group: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A group did not come to rest.
    #[snafu(display("failed to freeze every process in {} in time", group.display()))]
    StillRunning {
        /// The group.
        group: PathBuf,
    },
    /// A process could not be signalled.
    #[snafu(display("failed to {action} process {pid}"))]
    Signal {
        /// What was tried.
        action: &'static str,
        /// The process.
        pid: i32,
        /// What the system said.
        source: io::Error,
    },
    /// The rules of a network fault were refused.
    #[snafu(display("failed to {action} the network rules in {}", namespace.display()))]
    Network {
        /// What was tried.
        action: &'static str,
        /// The file of the network namespace.
        namespace: PathBuf,
        /// What the tool said.
        source: CommandError,
    },
    /// A disk could not be filled or freed.
    #[snafu(display("failed to {action} the disk at {}", mount.display()))]
    Disk {
        /// What was tried.
        action: &'static str,
        /// Where the disk is mounted.
        mount: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
