//! Finds and removes the mounts and loop devices of the cluster.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use snafu::{ResultExt, Snafu};

use crate::command::{self, CommandError};
use crate::files::{self, FileError};

const ROUNDS: usize = 4;

/// A mount or loop device could not be removed.
#[derive(Debug, Snafu)]
pub enum MountError {
    /// They could not be listed.
    #[snafu(display("failed to list mounts or loop devices"))]
    List {
        /// The cause.
        source: FileError,
    },
    /// A mount is held by something.
    #[snafu(display("failed to unmount {}", path.display()))]
    Unmount {
        /// The mount.
        path: PathBuf,
        /// The cause.
        source: CommandError,
    },
    /// A loop device is held by something.
    #[snafu(display("failed to detach {device}"))]
    Detach {
        /// The device.
        device: String,
        /// The cause.
        source: CommandError,
    },
}

/// The mounts at or below `folder`, the latest first, which is the order in which they can be removed.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>, MountError> {
    let mounts = files::read(Path::new("/proc/self/mountinfo")).context(ListSnafu)?.unwrap_or_default();
    Ok(parse(&mounts, folder))
}

fn parse(mountinfo: &str, folder: &Path) -> Vec<PathBuf> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    let mut points: Vec<PathBuf> = points.filter(|point| point.starts_with(folder)).collect();
    points.reverse();
    points
}

/// The kernel writes blanks and backslashes as octal numbers.
fn unescape(field: &str) -> PathBuf {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(field.to_owned(), |text, (code, character)| text.replace(code, character))
        .into()
}

/// Removes the mounts at or below `folder`. In several rounds: one mount may hold another, or take it along.
pub(crate) fn remove_below(folder: &Path) -> Result<(), MountError> {
    for round in 0..ROUNDS {
        let found = below(folder)?;
        for path in &found {
            // If somebody outside the cluster looks at it (a shell's working directory), let it go when they do.
            let lazy: &[&str] = if round > 0 { &["--lazy"] } else { &[] };
            let words = lazy.iter().map(OsStr::new).chain([path.as_os_str()]);
            let unmounted = command::run("umount", words);
            if round + 1 == ROUNDS && below(folder)?.contains(path) {
                unmounted.context(UnmountSnafu { path })?;
            }
        }
        if found.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

/// The loop devices whose file is below `folder`.
pub(crate) fn loop_devices(folder: &Path) -> Result<Vec<String>, MountError> {
    let mut found = Vec::new();
    for device in files::list(Path::new("/sys/block")).context(ListSnafu)? {
        let backing = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end()).starts_with(folder)
            && let Some(name) = device.file_name()
        {
            found.push(format!("/dev/{}", name.to_string_lossy()));
        }
    }
    Ok(found)
}

/// Detaches the loop devices whose file is below `folder`; their mounts must be gone.
pub(crate) fn detach_loop_devices(folder: &Path) -> Result<(), MountError> {
    for device in loop_devices(folder)? {
        let detached = command::run("losetup", ["--detach", &device]);
        // The kernel detaches some by itself when their last mount is gone.
        if loop_devices(folder)?.contains(&device) {
            detached.context(DetachSnafu { device })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_mount_comes_first_and_foreign_ones_do_not_come() {
        let mountinfo = "21 1 254:0 / / rw - ext4 /dev/vda rw\n\
                         30 21 0:40 / /var/lib/valkey-devcluster/a rw - tmpfs tmpfs rw\n\
                         31 30 0:41 / /var/lib/valkey-devcluster/a/with\\040blank rw - tmpfs tmpfs rw\n\
                         32 21 0:42 / /var/lib/valkey-devcluster-other rw - tmpfs tmpfs rw\n";
        let found = parse(mountinfo, Path::new("/var/lib/valkey-devcluster"));
        assert_eq!(
            found,
            [Path::new("/var/lib/valkey-devcluster/a/with blank"), Path::new("/var/lib/valkey-devcluster/a"),]
        );
    }
}
