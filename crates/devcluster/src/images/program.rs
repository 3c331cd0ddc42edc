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

/// An image of static programs, each a file of this machine and its path in the image, run as an ordinary user with a
/// writable `/tmp`. The first one is what a container without a command of its own runs.
pub fn from_programs(
    cache: &Path,
    reference: &str,
    programs: &[(&Path, &str)],
) -> Result<Archive, ImageError> {
    let mut files = Tree::default()
        .file("/etc/passwd", 0o644, format!("root:x:0:0:root:/:/\nnonroot:x:{USER}:{USER}:nonroot:/:/\n"))
        .file("/etc/group", 0o644, format!("root:x:0:\nnonroot:x:{USER}:\n"))
        .directory("/tmp", 0o1777, 0);
    for (binary, path) in programs {
        files = files.file(path, 0o755, fs::read(binary).context(ReadSnafu { path: *binary })?);
    }
    let config = ImageConfig {
        user: format!("{USER}:{USER}"),
        entrypoint: programs.iter().take(1).map(|(_, path)| (*path).to_owned()).collect(),
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
    fn the_same_programs_are_the_same_image_and_any_other_is_another() {
        let cache = tempfile::tempdir().unwrap();
        let [operator, agent] = ["operator", "agent"].map(|name| cache.path().join(name));
        for program in [&operator, &agent] {
            fs::write(program, "one").unwrap();
        }
        let programs = [(operator.as_path(), "/valkey-operator"), (agent.as_path(), "/valkey-agent")];
        let build = || from_programs(cache.path(), "valkey-operator:dev", &programs).unwrap();
        let first = build();
        assert_eq!(build(), first);
        fs::write(&agent, "two").unwrap();
        assert_ne!(build().digest, first.digest);
    }
}
