//! The image every pod starts with: one program that waits.

use std::fs;
use std::path::Path;

use snafu::ResultExt;

use super::config::ImageConfig;
use super::error::{CompilePauseSnafu, ImageError, ReadSnafu, WriteSnafu};
use super::recipe::Recipe;
use super::store;
use super::tree::Tree;
use crate::command;

/// The image's name in full, for containerd's `sandbox_image`.
pub const PAUSE_REFERENCE: &str = "docker.io/devcluster/pause:1";

/// C, because there is one such process per pod: this takes a tenth of a megabyte each. The C compiler is there
/// wherever Rust programs can be linked.
const SOURCE: &str = include_str!("pause.c");

pub(super) fn recipe(cache: &Path) -> Result<Recipe, ImageError> {
    let files = Tree::default().file("/pause", 0o755, program(cache)?);
    let config = ImageConfig {
        user: "65535:65535".into(),
        entrypoint: vec!["/pause".into()],
        ..ImageConfig::default()
    };
    Ok(Recipe { reference: PAUSE_REFERENCE.into(), base: None, files, config })
}

/// The compiled program, from the cache when it was compiled before.
fn program(cache: &Path) -> Result<Vec<u8>, ImageError> {
    let directory = cache.join("programs");
    let program = directory.join(format!("pause-{}", store::key(&[SOURCE])));
    if !program.exists() {
        fs::create_dir_all(&directory).context(WriteSnafu { path: &directory })?;
        let build = tempfile::tempdir_in(&directory).context(WriteSnafu { path: &directory })?;
        let [source, output] = ["pause.c", "pause"].map(|name| build.path().join(name));
        fs::write(&source, SOURCE).context(WriteSnafu { path: &source })?;
        let arguments = ["-static", "-Os", "-s", "-o"].map(Path::new);
        command::run("cc", arguments.into_iter().chain([output.as_path(), source.as_path()]))
            .context(CompilePauseSnafu)?;
        fs::rename(&output, &program).context(WriteSnafu { path: &program })?;
    }
    fs::read(&program).context(ReadSnafu { path: &program })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn waits_until_it_is_told_to_end() {
        let cache = tempfile::tempdir().unwrap();
        let path = cache.path().join("pause");
        fs::write(&path, program(cache.path()).unwrap()).unwrap();
        command::run("chmod", ["+x".as_ref(), path.as_os_str()]).unwrap();
        let mut pause = Command::new(&path).stdin(Stdio::null()).spawn().unwrap();
        assert!(pause.try_wait().unwrap().is_none());
        // The handlers are in place a moment after the start; before that the signal ends it differently.
        std::thread::sleep(std::time::Duration::from_millis(200));
        command::run("kill", [pause.id().to_string()]).unwrap();
        assert!(pause.wait().unwrap().success());
    }
}
