//! Root filesystems made from Debian packages.

use std::fs::File;
use std::path::Path;

use snafu::{OptionExt, ResultExt};

use super::error::{BootstrapSnafu, ImageError, MissingFileSnafu, ReadSnafu, WriteSnafu};
use super::store;
use super::tree::Tree;
use crate::command;

/// What every image gets: the skeleton (without it the dynamic loader is not where programs look for it), a shell,
/// and the tools that probe and start scripts written for stock images call.
const COMMON_PACKAGES: &[&str] =
    &["base-files", "bash", "coreutils", "dash", "findutils", "grep", "hostname", "libc-bin", "mawk", "sed"];

/// Names that an installation would make, were its scripts run.
const ALTERNATIVES: &[(&str, &str)] = &[("usr/bin/awk", "mawk")];

/// Parts of packages that nothing in a container reads. Copyright files stay.
const UNUSED: &[&str] = &[
    "boot/",
    "etc/init.d/",
    "etc/logrotate.d/",
    "usr/bin/systemd-",
    "usr/lib/systemd/",
    "usr/lib/x86_64-linux-gnu/gconv/",
    "usr/share/bash-completion/",
    "usr/share/info/",
    "usr/share/lintian/",
    "usr/share/locale/",
    "usr/share/man/",
    "var/cache/",
    "var/lib/apt/",
    "var/lib/dpkg/",
];

/// A choice of packages from one Debian suite.
#[derive(Debug, Clone, Copy)]
pub(super) struct RootFilesystem {
    /// The suite's code name.
    pub suite: &'static str,
    /// Packages beside the common ones.
    pub packages: &'static [&'static str],
    /// A file that must be in the result, so that a renamed package is noticed here and not in a pod.
    pub program: &'static str,
}

impl RootFilesystem {
    /// Identifies the choice, and the way the result is cut down.
    pub(super) fn key(&self) -> String {
        let [common, own, unused] = [COMMON_PACKAGES, self.packages, UNUSED].map(|words| words.join(","));
        store::key(&[self.suite, &common, &own, &unused, &format!("{ALTERNATIVES:?}")])
    }

    /// Fetches and unpacks the packages, from the mirror this machine's apt uses. `scratch` holds the raw result
    /// for a moment.
    pub(super) fn fetch(&self, scratch: &Path) -> Result<Tree, ImageError> {
        let raw = tempfile::NamedTempFile::new_in(scratch).context(WriteSnafu { path: scratch })?;
        let packages = [COMMON_PACKAGES, self.packages].concat().join(",");
        let arguments = [
            // Unpacking is enough: no maintainer script runs, the images set up what they need themselves.
            "--variant=extract".to_owned(),
            "--format=tar".to_owned(),
            // A mirror may be a frozen copy whose index has outlived its date.
            "--aptopt=Acquire::Check-Valid-Until \"false\"".to_owned(),
            format!("--include={packages}"),
            self.suite.to_owned(),
            raw.path().to_string_lossy().into_owned(),
        ];
        command::run("mmdebstrap", arguments).context(BootstrapSnafu { suite: self.suite })?;

        let file = File::open(raw.path()).context(ReadSnafu { path: raw.path() })?;
        let mut tree = Tree::from_tar(file).context(ReadSnafu { path: raw.path() })?;
        tree.retain(is_used);
        let tree = ALTERNATIVES.iter().fold(tree, |tree, (name, target)| tree.symlink(name, target));
        tree.contains(self.program)
            .then_some(tree)
            .context(MissingFileSnafu { suite: self.suite, path: self.program })
    }
}

fn is_used(path: &str) -> bool {
    let documentation = path.starts_with("usr/share/doc/") && !path.ends_with("/copyright");
    !documentation && !UNUSED.iter().any(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_programs_and_copyright_only() {
        assert!(is_used("usr/bin/valkey-server"));
        assert!(is_used("usr/share/doc/dash/copyright"));
        assert!(!is_used("usr/share/doc/dash/README"));
        assert!(!is_used("usr/share/locale/uk/LC_MESSAGES/coreutils.mo"));
    }

    #[test]
    fn another_package_is_another_key() {
        let one = RootFilesystem { suite: "forky", packages: &["a"], program: "usr/bin/a" };
        let two = RootFilesystem { packages: &["b"], ..one };
        assert_ne!(one.key(), two.key());
    }
}
