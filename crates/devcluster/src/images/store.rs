//! Where built archives are kept: one file per image and recipe, complete or absent.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use snafu::ResultExt;

use super::archive::{manifest_digest, sha256_hex};
use super::error::{ImageError, ReadSnafu, WriteSnafu};

/// Archives of the same image with other content are removed when they are older than this: an image of a program
/// under development gets a new one with every build.
const STALE_AFTER: Duration = Duration::from_hours(24);

/// An image ready to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// The name that pods write, in full: `docker.io/valkey/valkey:9.1`.
    pub reference: String,
    /// The archive.
    pub path: PathBuf,
    /// The digest of the image's manifest.
    pub digest: String,
}

/// Identifies content by what it is made from.
pub(super) fn key(parts: &[&str]) -> String {
    let mut hex = sha256_hex(parts.join("\0").as_bytes());
    hex.truncate(16);
    hex
}

/// Returns the archive of `reference` for `key`, made by `build` when the cache lacks it.
pub(super) fn archive(
    cache: &Path,
    reference: &str,
    key: &str,
    build: impl FnOnce(&Path) -> Result<Vec<u8>, ImageError>,
) -> Result<Archive, ImageError> {
    let directory = cache.join("images");
    let prefix = file_prefix(reference);
    let path = directory.join(format!("{prefix}-{key}.tar"));
    fs::create_dir_all(&directory).context(WriteSnafu { path: &directory })?;
    let _lock = lock(&directory.join(format!("{prefix}.lock")))?;
    if !path.exists() {
        tracing::info!(image = reference, "building image");
        let content = build(&directory)?;
        write(&path, &content)?;
        remove_stale(&directory, &prefix, &path);
        tracing::info!(image = reference, megabytes = content.len() / 1_000_000, "built image");
    }
    let file = File::open(&path).context(ReadSnafu { path: &path })?;
    let digest = manifest_digest(file).context(ReadSnafu { path: &path })?;
    Ok(Archive { reference: reference.to_owned(), path, digest })
}

/// Holds everybody else who builds the same thing; the system lets go of it when the file is closed.
pub(super) fn lock(path: &Path) -> Result<File, ImageError> {
    let file = File::create(path).context(WriteSnafu { path })?;
    file.lock().context(WriteSnafu { path })?;
    Ok(file)
}

fn write(path: &Path, content: &[u8]) -> Result<(), ImageError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory).context(WriteSnafu { path })?;
    file.write_all(content).context(WriteSnafu { path })?;
    file.persist(path).map_err(|error| error.error).context(WriteSnafu { path })?;
    Ok(())
}

/// Best effort: a stale archive costs space, nothing else.
fn remove_stale(directory: &Path, prefix: &str, current: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let same_image = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|rest| rest.strip_suffix(".tar"))
            .is_some_and(|key| key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if same_image && entry.path() != current && age.is_some_and(|age| age > STALE_AFTER) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn file_prefix(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    name.replace(':', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::archive::pack;
    use crate::images::config::ImageConfig;
    use crate::images::tree::Tree;

    const REFERENCE: &str = "docker.io/library/sample:1";

    fn sample() -> Vec<u8> {
        pack(REFERENCE, &ImageConfig::default(), &Tree::default().file("/a", 0o644, "a")).unwrap()
    }

    #[test]
    fn builds_once() {
        let cache = tempfile::tempdir().unwrap();
        let first = archive(cache.path(), REFERENCE, "k", |_| Ok(sample())).unwrap();
        let second = archive(cache.path(), REFERENCE, "k", |_| panic!("built twice")).unwrap();
        assert_eq!(first, second);
        assert!(first.path.ends_with("images/sample-1-k.tar"));
        assert!(first.digest.starts_with("sha256:"));
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let error = || ImageError::MissingFile { suite: "s".into(), path: "p".into() };
        archive(cache.path(), REFERENCE, "k", |_| Err(error())).unwrap_err();
        assert!(!cache.path().join("images/sample-1-k.tar").exists());
    }

    #[test]
    fn only_stale_archives_of_the_same_image_are_removed() {
        let cache = tempfile::tempdir().unwrap();
        let images = cache.path().join("images");
        fs::create_dir_all(&images).unwrap();
        let stale = images.join("sample-1-0123456789abcdef.tar");
        let fresh = images.join("sample-1-1123456789abcdef.tar");
        let other = images.join("sample-1-extra-0123456789abcdef.tar");
        for path in [&stale, &fresh, &other] {
            fs::write(path, "").unwrap();
        }
        let long_ago = std::time::SystemTime::now() - 2 * STALE_AFTER;
        for path in [&stale, &other] {
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        archive(cache.path(), REFERENCE, "k", |_| Ok(sample())).unwrap();
        assert!(!stale.exists() && fresh.exists() && other.exists());
    }
}
