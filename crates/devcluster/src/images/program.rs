//! Images of our own programs: nothing but the files given.

use std::fs;
use std::path::Path;

use snafu::ResultExt;

use super::config::ImageConfig;
use super::error::{ImageError, ReadSnafu};
use super::recipe::Recipe;
use super::store::Archive;
use super::tree::Tree;

/// Who our programs run as.
const USER: u32 = 65532;

/// An image of `files` and nothing else, under the name `reference` (short names are completed).
pub fn scratch_image(
    cache: &Path,
    reference: &str,
    files: Tree,
    config: ImageConfig,
) -> Result<Archive, ImageError> {
    Recipe { reference: full_reference(reference), base: None, files, config }.archive(cache)
}

/// An image of one static program at `entrypoint`, run as an ordinary user with a writable `/tmp`.
pub fn from_binary(
    cache: &Path,
    reference: &str,
    binary: &Path,
    entrypoint: &str,
) -> Result<Archive, ImageError> {
    let content = fs::read(binary).context(ReadSnafu { path: binary })?;
    let files = Tree::default()
        .file("/etc/passwd", 0o644, format!("root:x:0:0:root:/:/\nnonroot:x:{USER}:{USER}:nonroot:/:/\n"))
        .file("/etc/group", 0o644, format!("root:x:0:\nnonroot:x:{USER}:\n"))
        .directory("/tmp", 0o1777, 0)
        .file(entrypoint, 0o755, content);
    let config = ImageConfig {
        user: format!("{USER}:{USER}"),
        entrypoint: vec![entrypoint.to_owned()],
        ..ImageConfig::default()
    };
    scratch_image(cache, reference, files, config)
}

/// The name as the container runtime completes it: `valkey/valkey:9.1` is `docker.io/valkey/valkey:9.1`.
pub fn full_reference(reference: &str) -> String {
    let tagged = match reference.rsplit('/').next() {
        Some(last) if !last.contains(':') && !reference.contains('@') => format!("{reference}:latest"),
        _ => reference.to_owned(),
    };
    match tagged.split_once('/') {
        None => format!("docker.io/library/{tagged}"),
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => tagged,
        Some(_) => format!("docker.io/{tagged}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_completed() {
        let cases = [
            ("valkey-operator:dev", "docker.io/library/valkey-operator:dev"),
            ("valkey/valkey:9.1", "docker.io/valkey/valkey:9.1"),
            ("valkey/valkey", "docker.io/valkey/valkey:latest"),
            ("localhost/a:1", "localhost/a:1"),
            ("registry.example:5000/a/b:1", "registry.example:5000/a/b:1"),
            ("docker.io/a/b:1", "docker.io/a/b:1"),
        ];
        for (short, full) in cases {
            assert_eq!(full_reference(short), full);
        }
    }

    #[test]
    fn the_same_program_is_the_same_image() {
        let cache = tempfile::tempdir().unwrap();
        let binary = cache.path().join("program");
        fs::write(&binary, "one").unwrap();
        let build = || from_binary(cache.path(), "valkey-operator:dev", &binary, "/valkey-operator").unwrap();
        let first = build();
        assert_eq!(build(), first);
        fs::write(&binary, "two").unwrap();
        assert_ne!(build().digest, first.digest);
    }
}
