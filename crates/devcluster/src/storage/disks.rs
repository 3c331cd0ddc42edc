//! Volumes as loop-mounted files of exactly the requested size, so that a full disk is really full.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use snafu::{OptionExt, ResultExt};

use super::error::{DiskSnafu, FileSnafu, NotAttachedSnafu, ReleaseSnafu, StorageError};
use super::mounts::{loop_devices, mounts};
use crate::command::{self, CommandError};

/// XFS, because growing a mounted ext4 takes `CAP_SYS_RESOURCE`, which containers and sandboxes often lack. The tools
/// call filesystems below 300 MB and small logs unsupported; for disks of tests a small log saves 60 MB each.
const FORMAT: [&str; 8] = ["--unsupported", "-q", "-f", "-K", "-m", "reflink=0,rmapbt=0", "-l", "size=4m"];
/// Nothing smaller can hold the filesystem; a claim for less gets this much and is told what it asked for.
const SMALLEST: u64 = 16 << 20;
/// The file that is the disk.
const IMAGE: &str = "disk";
/// Where the disk is mounted.
const MOUNT: &str = "mount";
/// Marks a disk that stays although no volume names it any more.
const KEPT: &str = "kept";

/// The disks of one cluster.
#[derive(Debug, Clone)]
pub struct Disks {
    directory: PathBuf,
}

/// One disk as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The volume it belongs to.
    pub volume: String,
    /// Whether its content can be reached.
    pub mounted: bool,
    /// Whether it stays although no volume names it any more.
    pub kept: bool,
}

impl Disks {
    /// The disks below `directory`, which is made when it is missing.
    pub fn open(directory: &Path) -> Result<Self, StorageError> {
        let volumes = directory.join("volumes");
        fs::create_dir_all(&volumes).context(FileSnafu { action: "create", path: &volumes })?;
        // The kernel reports real paths.
        let directory = fs::canonicalize(&volumes).context(FileSnafu { action: "find", path: &volumes })?;
        Ok(Self { directory })
    }

    /// Where the disk of `volume` is mounted.
    pub fn mount_point(&self, volume: &str) -> PathBuf {
        self.folder(volume).join(MOUNT)
    }

    /// Every disk, also those of which only a part was made.
    pub fn list(&self) -> Result<Vec<Disk>, StorageError> {
        let mounts = mounts()?;
        let entries = fs::read_dir(&self.directory);
        let entries = entries.context(FileSnafu { action: "read", path: &self.directory })?;
        let mut disks: Vec<Disk> = entries
            .flatten()
            .map(|entry| {
                let volume = entry.file_name().to_string_lossy().into_owned();
                let mount_point = self.mount_point(&volume);
                let mounted = mounts.iter().any(|mount| mount.target == mount_point);
                Disk { mounted, kept: entry.path().join(KEPT).exists(), volume }
            })
            .collect();
        disks.sort_by(|one, other| one.volume.cmp(&other.volume));
        Ok(disks)
    }

    /// Makes and mounts a disk. What an earlier, cut-off attempt left is completed.
    pub fn create(&self, volume: &str, bytes: u64) -> Result<(), StorageError> {
        let folder = self.folder(volume);
        fs::create_dir_all(&folder).context(FileSnafu { action: "create", path: &folder })?;
        let image = folder.join(IMAGE);
        if !image.exists() {
            let unfinished = folder.join("unfinished");
            resize(&unfinished, bytes.max(SMALLEST), true)?;
            let disk = DiskSnafu { action: "format", volume };
            run("mkfs.xfs", &FORMAT, &[&unfinished]).context(disk)?;
            fs::rename(&unfinished, &image).context(FileSnafu { action: "create", path: &image })?;
        }
        self.mount(volume)
    }

    /// Mounts a disk unless it is mounted.
    pub fn mount(&self, volume: &str) -> Result<(), StorageError> {
        let mount_point = self.mount_point(volume);
        fs::create_dir_all(&mount_point).context(FileSnafu { action: "create", path: &mount_point })?;
        if mounts()?.iter().any(|mount| mount.target == mount_point) {
            return Ok(());
        }
        let image = self.folder(volume).join(IMAGE);
        run("mount", &["-t", "xfs", "-o", "loop"], &[&image, &mount_point])
            .context(DiskSnafu { action: "mount", volume })
    }

    /// Makes a mounted disk larger. A disk never becomes smaller.
    pub fn grow(&self, volume: &str, bytes: u64) -> Result<(), StorageError> {
        let image = self.folder(volume).join(IMAGE);
        resize(&image, bytes.max(SMALLEST), false)?;
        let devices = loop_devices(&self.folder(volume))?;
        let device = &devices.first().context(NotAttachedSnafu { volume })?.device;
        run("losetup", &["--set-capacity"], &[device]).context(DiskSnafu { action: "grow", volume })?;
        run("xfs_growfs", &[], &[&self.mount_point(volume)]).context(DiskSnafu { action: "grow", volume })
    }

    /// Unmounts and removes a disk with everything on it.
    pub fn remove(&self, volume: &str) -> Result<(), StorageError> {
        let mount_point = self.mount_point(volume);
        if mounts()?.iter().any(|mount| mount.target == mount_point) {
            run("umount", &[], &[&mount_point]).context(DiskSnafu { action: "unmount", volume })?;
        }
        let folder = self.folder(volume);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.context(FileSnafu { action: "remove", path: folder }),
        }
    }

    /// Lets a disk stay although no volume will name it any more.
    pub fn keep(&self, volume: &str) -> Result<(), StorageError> {
        let mark = self.folder(volume).join(KEPT);
        fs::write(&mark, "").context(FileSnafu { action: "write", path: mark })
    }

    fn folder(&self, volume: &str) -> PathBuf {
        self.directory.join(volume)
    }
}

/// Mounts every disk below `directory` that was made and is not mounted, as after a restart of the machine.
pub fn remount(directory: &Path) -> Result<(), StorageError> {
    let disks = Disks::open(directory)?;
    for disk in disks.list()? {
        if !disk.mounted && disks.folder(&disk.volume).join(IMAGE).exists() {
            disks.mount(&disk.volume)?;
        }
    }
    Ok(())
}

/// Unmounts every disk below `directory`, wherever it is mounted, and detaches its device. The files stay.
///
/// It asks nobody but the kernel, so it works when the cluster is gone.
pub fn cleanup(directory: &Path) -> Result<(), StorageError> {
    let Ok(directory) = fs::canonicalize(directory) else { return Ok(()) };
    let devices = loop_devices(&directory)?;
    let ours = |source: &Path| devices.iter().any(|device| device.device == source);
    for mount in mounts()?.into_iter().rev().filter(|mount| ours(&mount.source)) {
        let what = mount.target.display().to_string();
        run("umount", &[], &[&mount.target])
            // Somebody still looks at it: take it out of everybody's sight now, the kernel does the rest.
            .or_else(|_| run("umount", &["--lazy"], &[&mount.target]))
            .context(ReleaseSnafu { what })?;
    }
    // Most devices went with their last mount.
    for device in loop_devices(&directory)? {
        let what = device.device.display().to_string();
        run("losetup", &["--detach"], &[&device.device]).context(ReleaseSnafu { what })?;
    }
    Ok(())
}

fn run(program: &str, options: &[&str], paths: &[&Path]) -> Result<(), CommandError> {
    let options = options.iter().map(AsRef::as_ref);
    command::run(program, options.chain(paths.iter().map(|path| path.as_os_str()))).map(drop)
}

/// Sets the length of a file without taking space for it; an existing one only grows.
fn resize(path: &Path, bytes: u64, create: bool) -> Result<(), StorageError> {
    let resize = || {
        let file = File::options().write(true).create(create).truncate(create).open(path)?;
        if file.metadata()?.len() < bytes { file.set_len(bytes) } else { Ok(()) }
    };
    resize().context(FileSnafu { action: "resize", path })
}
