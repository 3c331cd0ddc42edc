//! A lock between processes that ends with the process that holds it, however that ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use snafu::{ResultExt, Snafu};

use crate::files::{self, FileError};

/// A lock could not be taken.
#[derive(Debug, Snafu)]
pub enum LockError {
    /// Its folder.
    #[snafu(display("failed to prepare a lock"))]
    Prepare {
        /// The cause.
        source: FileError,
    },
    /// Its file.
    #[snafu(display("failed to lock {}", path.display()))]
    Take {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Waits for the lock `path`, saying so if another process holds it.
pub(crate) fn take(path: &Path) -> Result<Lock, LockError> {
    if let Some(folder) = path.parent() {
        files::create_folder(folder).context(PrepareSnafu)?;
    }
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.context(TakeSnafu { path })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another devcluster to finish ({})", path.display());
            file.lock().context(TakeSnafu { path })?;
        }
        Err(TryLockError::Error(source)) => return Err(LockError::Take { path: path.into(), source }),
    }
    Ok(Lock { _file: file })
}
