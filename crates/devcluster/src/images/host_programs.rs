//! Valkey's programs unpacked for this machine, so that tests can start real servers without a container.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use snafu::ResultExt;

use super::archive::files;
use super::error::{HostProgramSnafu, ImageError, ReadSnafu, WriteSnafu};
use super::{StockImage, ValkeyVersion, store};
use crate::command;

/// The programs come from a newer Debian than this machine may run, so they are started through the dynamic loader and with
/// the libraries they were built for. The path of the script, not a fixed one, so that the folder may be moved.
const WRAPPER: &str = r#"#!/bin/sh
root="${0%/*}/../root"
exec "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/PROGRAM" "$@"
"#;

const PROGRAMS: &[&str] =
    &["valkey-server", "valkey-cli", "valkey-benchmark", "valkey-check-aof", "valkey-check-rdb"];

/// Where one version's programs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPrograms {
    /// A folder with `valkey-server`, `valkey-cli` and the others, to be started like any program.
    pub bin: PathBuf,
}

impl HostPrograms {
    /// The server.
    pub fn server(&self) -> PathBuf {
        self.bin.join("valkey-server")
    }

    /// The command line client.
    pub fn cli(&self) -> PathBuf {
        self.bin.join("valkey-cli")
    }
}

/// The programs of one version, unpacked from its image when the cache lacks them. They are also found under a name that stays the
/// same when the packages change: `<cache>/rootfs/valkey-9.1/bin`.
pub fn host_programs(cache: &Path, version: ValkeyVersion) -> Result<HostPrograms, ImageError> {
    let directory = cache.join("rootfs");
    let name = format!("valkey-{}", version.tag());
    fs::create_dir_all(&directory).context(WriteSnafu { path: &directory })?;
    let _lock = store::lock(&directory.join(format!("{name}.lock")))?;

    let archive = StockImage::Valkey(version).build(cache)?;
    let keyed = format!("{name}-{}", store::key(&[&archive.digest, WRAPPER, &PROGRAMS.join(",")]));
    let path = directory.join(&keyed);
    if !path.exists() {
        tracing::info!(version = version.tag(), "unpacking Valkey for this machine");
        let unpacked = tempfile::tempdir_in(&directory).context(WriteSnafu { path: &directory })?;
        let file = fs::File::open(&archive.path).context(ReadSnafu { path: &archive.path })?;
        let tree = files(file).context(ReadSnafu { path: &archive.path })?;
        tree.unpack(&unpacked.path().join("root")).context(WriteSnafu { path: &path })?;
        write_wrappers(&unpacked.path().join("bin")).context(WriteSnafu { path: &path })?;
        let server = unpacked.path().join("bin/valkey-server");
        command::run(&server.to_string_lossy(), ["--version"])
            .context(HostProgramSnafu { version: version.tag(), path: unpacked.path() })?;
        open_to_all(unpacked.path()).context(WriteSnafu { path: &path })?;
        fs::rename(unpacked.keep(), &path).context(WriteSnafu { path: &path })?;
    }
    point(&directory.join(name), &keyed).context(WriteSnafu { path: &path })?;
    Ok(HostPrograms { bin: path.join("bin") })
}

fn write_wrappers(bin: &Path) -> io::Result<()> {
    fs::create_dir_all(bin)?;
    for program in PROGRAMS {
        let path = bin.join(program);
        fs::write(&path, WRAPPER.replace("PROGRAM", program))?;
        open_to_all(&path)?;
    }
    Ok(())
}

fn open_to_all(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Makes `link` point at `target` in one step, so that nobody finds it missing.
fn point(link: &Path, target: &str) -> io::Result<()> {
    if fs::read_link(link).is_ok_and(|current| current == Path::new(target)) {
        return Ok(());
    }
    let mut new = link.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => symlink(target, &new)?,
    }
    fs::rename(new, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_can_be_pointed_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("valkey-9.1");
        for target in ["one", "two", "two"] {
            point(&link, target).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
        }
    }
}
