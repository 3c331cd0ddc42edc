//! Fills a disk to its last block.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use snafu::ResultExt;

use super::error::{DiskSnafu, FaultError};

/// The smallest piece worth asking for.
const BLOCK: u64 = 4096;

/// A disk without a free block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// Where the disk is mounted.
    pub mount: PathBuf,
}

impl Fill {
    pub(super) fn begin(&self, id: &str) -> Result<(), FaultError> {
        fill(&self.file(id)).context(DiskSnafu { action: "fill", mount: &self.mount })
    }

    pub(super) fn end(&self, id: &str) -> Result<(), FaultError> {
        match fs::remove_file(self.file(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.context(DiskSnafu { action: "free", mount: &self.mount }),
        }
    }

    fn file(&self, id: &str) -> PathBuf {
        self.mount.join(format!(".filled-{id}"))
    }
}

/// Space that is taken is as gone as space that is written, and it is taken in no time.
fn fill(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    let disk = statvfs(path)?;
    let mut piece = (disk.f_bavail * disk.f_frsize).max(BLOCK);
    let mut taken = 0;
    while piece >= BLOCK {
        match fallocate(&file, FallocateFlags::empty(), taken, piece) {
            Ok(()) => taken += piece,
            Err(Errno::NOSPC) => piece /= 2,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    file.sync_all()
}
