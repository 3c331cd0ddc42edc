//! Files that are whole or not there.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process;

/// Puts `content` in the place of whatever `path` is. Others see the old file or the new one, never a part, and never
/// one that more people may read than `mode` says.
pub(crate) fn replace(path: &Path, mode: u32, content: &mut dyn Read) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Two probes may run side by side: each writes a file of its own.
    let draft = path.with_file_name(format!(".{name}.{}", process::id()));
    let written = write(&draft, mode, content).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // Only the first failure is worth telling.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write(draft: &Path, mode: u32, content: &mut dyn Read) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
    io::copy(content, &mut file)?;
    // Not at creation: a mode without writing, or a umask, would be in the way.
    file.set_permissions(Permissions::from_mode(mode))
}

/// The text of a file; `None` if there is no such file. Bytes that are no UTF-8 are replaced.
pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    absent(fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Removes a file or a directory with all in it; `false` if there was none.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<bool> {
    let Some(found) = absent(fs::symlink_metadata(path))? else { return Ok(false) };
    if found.is_dir() {
        fs::remove_dir_all(path)?;
    } else {
        fs::remove_file(path)?;
    }
    Ok(true)
}

fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        replace(&path, 0o555, &mut "one".as_bytes()).unwrap();
        replace(&path, 0o600, &mut "two".as_bytes()).unwrap();
        assert_eq!((read_if_there(&path).unwrap().as_deref(), mode(&path)), (Some("two"), 0o600));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_alone() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        replace(&path, 0o600, &mut "one".as_bytes()).unwrap();
        replace(&path, 0o600, &mut Broken).unwrap_err();
        assert_eq!(read_if_there(&path).unwrap().as_deref(), Some("one"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_there_is_no_failure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        assert_eq!(read_if_there(&path).unwrap(), None);
        assert!(!remove_if_there(&path).unwrap());
        fs::create_dir(&path).unwrap();
        fs::write(path.join("b"), "").unwrap();
        assert!(remove_if_there(&path).unwrap() && !path.exists());
    }
}
