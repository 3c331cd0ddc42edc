//! Builds the one program that holds all of Kubernetes, once per version of its source.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};
use snafu::{ResultExt, Snafu};

use crate::cache::{self, CacheError};
use crate::command::{self, CommandError};
use crate::files::{self, FileError};
use crate::lock::{self, LockError};
use crate::progress::Step;

/// The version of Kubernetes that the module pins.
pub(crate) const VERSION: &str = "v1.35.4";

/// The Go module, carried inside this program so that it needs no checkout beside it.
const MODULE: [(&str, &str); 7] = [
    ("components.go", include_str!("../kubernetes/components.go")),
    ("coredns.go", include_str!("../kubernetes/coredns.go")),
    ("etcd.go", include_str!("../kubernetes/etcd.go")),
    ("go.mod", include_str!("../kubernetes/go.mod")),
    ("go.sum", include_str!("../kubernetes/go.sum")),
    ("kubectl.go", include_str!("../kubernetes/kubectl.go")),
    ("main.go", include_str!("../kubernetes/main.go")),
];

/// Without its version kubectl refuses to talk, the API server calls itself v0.0.0, and so does every client.
const LINKER_FLAGS: &str = "-s -w -X k8s.io/client-go/pkg/version.gitVersion=v1.35.4 \
                            -X k8s.io/component-base/version.gitVersion=v1.35.4 \
                            -X k8s.io/component-base/version.gitMajor=1 \
                            -X k8s.io/component-base/version.gitMinor=35";

/// Kubernetes could not be built.
#[derive(Debug, Snafu)]
pub enum BuildError {
    /// There is no cache to build into.
    #[snafu(display("failed to build Kubernetes"))]
    Cache {
        /// The cause.
        source: CacheError,
    },
    /// Go is not there.
    #[snafu(display("failed to ask for the version of Go, which must be installed"))]
    GoMissing {
        /// The cause.
        source: CommandError,
    },
    /// Another build is in the way.
    #[snafu(display("failed to wait for another build of Kubernetes"))]
    Wait {
        /// The cause.
        source: LockError,
    },
    /// The source could not be laid out.
    #[snafu(display("failed to lay out the source of Kubernetes"))]
    Source {
        /// The cause.
        source: FileError,
    },
    /// Go said no.
    #[snafu(display("failed to build Kubernetes {VERSION}"))]
    Compile {
        /// The cause.
        source: CommandError,
    },
    /// The built program could not be moved to its place.
    #[snafu(display("failed to put the built program to {}", path.display()))]
    Publish {
        /// Its place.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The built program, built first if it is not in the cache.
pub(crate) fn ensure() -> Result<PathBuf, BuildError> {
    let go = command::run("go", ["env", "GOVERSION"]).context(GoMissingSnafu)?;
    let folder = cache::folder().context(CacheSnafu)?.join("kubernetes");
    let home = folder.join(key(go.trim()));
    let program = home.join("kubernetes");
    if program.exists() {
        return Ok(program);
    }
    let _lock = lock::take(&folder.join("build.lock")).context(WaitSnafu)?;
    if !program.exists() {
        build(&home, &program)?;
    }
    Ok(program)
}

/// Changes with everything the program is made of.
fn key(go_version: &str) -> String {
    let mut hash = Sha256::new();
    for (name, content) in MODULE.into_iter().chain([("go", go_version), ("flags", LINKER_FLAGS)]) {
        hash.update(format!("{name} {}\n", content.len()));
        hash.update(content);
    }
    hash.finalize().iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn build(home: &Path, program: &Path) -> Result<(), BuildError> {
    let step = Step::start(format!("building Kubernetes {VERSION} (once, about 10 minutes on two cores)"));
    eprintln!("building Kubernetes {VERSION} into {}", home.display());
    let source = home.join("source");
    for (name, content) in MODULE {
        files::write(&source.join(name), content).context(SourceSnafu)?;
    }
    // Under another name until it is whole: a build that is cut off leaves nothing that looks finished. The name is
    // this process's own, as a compiler whose parent was killed may still be writing.
    let unfinished = home.join(format!("kubernetes.{}", std::process::id()));
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-ldflags", LINKER_FLAGS, "-o"]).arg(&unfinished).arg(".");
    go.current_dir(&source).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly -buildvcs=false");
    command::run_command(&mut go).context(CompileSnafu)?;
    fs::rename(&unfinished, program).context(PublishSnafu { path: program })?;
    step.done();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_module() {
        let go_mod = MODULE.iter().find(|(name, _)| *name == "go.mod").unwrap().1;
        assert!(go_mod.contains(&format!("k8s.io/kubernetes {VERSION}\n")));
        assert!(LINKER_FLAGS.contains(VERSION));
    }

    #[test]
    fn the_key_follows_the_compiler() {
        assert_ne!(key("go1.26.8"), key("go1.26.9"));
        assert_eq!(key("go1.26.8").len(), 16);
    }

    #[test]
    fn every_source_file_is_carried() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes");
        let there = files::list(&folder).unwrap();
        let names: Vec<_> = there.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, MODULE.map(|(name, _)| name));
    }
}
