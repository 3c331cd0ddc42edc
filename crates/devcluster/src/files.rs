//! Writing and removing files with errors that name them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use snafu::{ResultExt, Snafu};

/// A file or folder that could not be handled.
#[derive(Debug, Snafu)]
pub enum FileError {
    /// A folder could not be made.
    #[snafu(display("failed to create the folder {}", path.display()))]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[snafu(display("failed to write {}", path.display()))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be read.
    #[snafu(display("failed to read {}", path.display()))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or folder could not be removed.
    #[snafu(display("failed to remove {}", path.display()))]
    Remove {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes the folder `path` and those above it.
pub(crate) fn create_folder(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).context(CreateFolderSnafu { path })
}

/// Makes a folder whose content only its owner sees.
pub(crate) fn create_private_folder(path: &Path) -> Result<(), FileError> {
    create_folder(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).context(CreateFolderSnafu { path })
}

/// Writes a whole file, making its folder first. A reader sees the old content or the new, never a part.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), FileError> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new = path.with_file_name(name);
    fs::write(&new, content).context(WriteSnafu { path: &new })?;
    fs::rename(&new, path).context(WriteSnafu { path })
}

/// Reads a whole file; none if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError::Read { path: path.into(), source }),
    }
}

/// The entries of a folder; none if there is no such folder.
pub(crate) fn list(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(FileError::Read { path: path.into(), source }),
    };
    // An entry that vanishes while the folder is read is not there: nothing to report.
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Removes a file or a folder with all it holds; it may be gone already.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FileError::Remove { path: path.into(), source: error })
        }
        _ => Ok(()),
    }
}
