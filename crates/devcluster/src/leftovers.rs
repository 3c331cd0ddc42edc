//! Clears the machine of a cluster, whole or half started, and lists what is left of one.

use std::{fmt, io};

use snafu::{ResultExt, Snafu};

use crate::cgroups::{CgroupError, Cgroups};
use crate::files::{self, FileError};
use crate::kernel_settings;
use crate::layout::{CGROUP, Layout};
use crate::mounts::{self, MountError};
use crate::network::{self, NetworkError};
use crate::process::{self, ProcessError};
use crate::traces;

/// Something could not be cleared.
#[derive(Debug, Snafu)]
pub enum ClearError {
    /// Processes.
    #[snafu(display("failed to end the cluster's processes"))]
    Processes {
        /// The cause.
        source: ProcessError,
    },
    /// Control groups.
    #[snafu(display("failed to clear the cluster's control groups"))]
    Groups {
        /// The cause.
        source: CgroupError,
    },
    /// Mounts and loop devices.
    #[snafu(display("failed to clear the cluster's mounts"))]
    Mounts {
        /// The cause.
        source: MountError,
    },
    /// The network.
    #[snafu(display("failed to clear the cluster's network"))]
    Network {
        /// The cause.
        source: NetworkError,
    },
    /// Files.
    #[snafu(display("failed to clear the cluster's files"))]
    Files {
        /// The cause.
        source: FileError,
    },
    /// After all of that something is still there.
    #[snafu(display("failed to clear everything; left behind:\n{}", list(left)))]
    Left {
        /// What.
        left: Vec<Leftover>,
    },
}

/// Something of the cluster that is on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its kind: process, mount, ...
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

fn list(left: &[Leftover]) -> String {
    left.iter().map(|item| format!("  {item}")).collect::<Vec<_>>().join("\n")
}

/// Ends and removes everything of the cluster but its logs. Needs no record of what was started: it looks for all
/// that could have been.
pub(crate) fn clear(layout: &Layout) -> Result<(), ClearError> {
    let cgroups = Cgroups::find().context(GroupsSnafu)?;
    // Processes hold mounts and namespaces, mounts hold loop devices: this order leaves nothing in use.
    process::kill(&cgroups, CGROUP).context(ProcessesSnafu)?;
    for folder in [layout.run(), layout.state()] {
        mounts::remove_below(folder).context(MountsSnafu)?;
    }
    mounts::detach_loop_devices(layout.state()).context(MountsSnafu)?;
    network::clear().context(NetworkSnafu)?;
    cgroups.remove(CGROUP).context(GroupsSnafu)?;
    kernel_settings::restore(layout).context(FilesSnafu)?;
    clear_files(layout).context(FilesSnafu)?;
    let left = find(layout)?;
    if left.is_empty() { Ok(()) } else { LeftSnafu { left }.fail() }
}

fn clear_files(layout: &Layout) -> Result<(), FileError> {
    traces::remove_all(layout)?;
    files::remove(layout.run())?;
    // The record goes last: as long as it is there, the cluster counts as begun.
    let record = layout.record();
    for entry in files::list(layout.state())? {
        if entry != layout.logs() && entry != record {
            files::remove(&entry)?;
        }
    }
    files::remove(&record)
}

/// What of the cluster is on the machine, except files.
pub fn find(layout: &Layout) -> Result<Vec<Leftover>, ClearError> {
    let mut left = Vec::new();
    let mut add =
        |kind, names: Vec<String>| left.extend(names.into_iter().map(|name| Leftover { kind, name }));
    let cgroups = Cgroups::find().context(GroupsSnafu)?;
    add("process", cgroups.processes(CGROUP).into_iter().map(describe_process).collect());
    for folder in [layout.run(), layout.state()] {
        let found = mounts::below(folder).context(MountsSnafu)?;
        add("mount", found.into_iter().map(|path| path.display().to_string()).collect());
    }
    add("loop device", mounts::loop_devices(layout.state()).context(MountsSnafu)?);
    add("network namespace", network::namespaces());
    add("link", network::links().context(NetworkSnafu)?);
    add("route", network::routes().context(NetworkSnafu)?);
    add("nft table", network::tables().context(NetworkSnafu)?);
    let groups = cgroups.existing(CGROUP);
    add("control group", groups.into_iter().map(|path| path.display().to_string()).collect());
    Ok(left)
}

fn describe_process(pid: i32) -> String {
    let command: io::Result<Vec<u8>> = std::fs::read(format!("/proc/{pid}/cmdline"));
    let command = command.unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    format!("{pid} {}", command.chars().take(80).collect::<String>().trim_end())
}
