//! What is mounted on this machine and which files stand behind loop devices, as the kernel tells it.

use std::fs;
use std::path::{Path, PathBuf};

use snafu::ResultExt;

use super::error::{FileSnafu, StorageError};

const MOUNTS: &str = "/proc/self/mountinfo";
const BLOCK_DEVICES: &str = "/sys/block";

/// One mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// The device.
    pub source: PathBuf,
    /// Where it is seen.
    pub target: PathBuf,
}

/// A loop device in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoopDevice {
    /// The device.
    pub device: PathBuf,
    /// The file behind it.
    pub file: PathBuf,
}

/// Everything mounted, in the order it was mounted.
pub(super) fn mounts() -> Result<Vec<Mount>, StorageError> {
    let text = fs::read_to_string(MOUNTS).context(FileSnafu { action: "read", path: MOUNTS })?;
    Ok(text.lines().filter_map(parse_mount).collect())
}

/// Loop devices whose file is below `directory`.
pub(super) fn loop_devices(directory: &Path) -> Result<Vec<LoopDevice>, StorageError> {
    let entries = fs::read_dir(BLOCK_DEVICES).context(FileSnafu { action: "read", path: BLOCK_DEVICES })?;
    let devices = entries.flatten().filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let file = backing_file(&text);
        let device = Path::new("/dev").join(entry.file_name());
        file.starts_with(directory).then_some(LoopDevice { device, file })
    });
    Ok(devices.collect())
}

/// The kernel marks a file that has been removed while the device still holds it.
fn backing_file(text: &str) -> PathBuf {
    let text = text.trim_end_matches('\n');
    PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(text))
}

/// `36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw`: a variable number of words stands before the dash.
fn parse_mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let target = before.split(' ').nth(4)?;
    let source = after.split(' ').nth(1)?;
    Some(Mount { source: unescape(source), target: unescape(target) })
}

/// Blanks and backslashes in paths are written as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                path.push(char::from(code));
                path.push_str(&part[3..]);
            }
            None => path.push_str(part),
        }
    }
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mounts_with_and_without_optional_words() {
        let mount = |source: &str, target: &str| Some(Mount { source: source.into(), target: target.into() });
        let plain = "36 27 7:1 / /var/volumes/a/mount rw,relatime - xfs /dev/loop1 rw";
        assert_eq!(parse_mount(plain), mount("/dev/loop1", "/var/volumes/a/mount"));
        let shared = r"36 27 7:1 / /with\040blank rw shared:1 master:2 - xfs /dev/loop2 rw";
        assert_eq!(parse_mount(shared), mount("/dev/loop2", "/with blank"));
        assert_eq!(parse_mount("nonsense"), None);
    }

    #[test]
    fn a_removed_file_keeps_its_name() {
        assert_eq!(backing_file("/a/disk (deleted)\n"), Path::new("/a/disk"));
        assert_eq!(backing_file("/a/disk\n"), Path::new("/a/disk"));
    }
}
