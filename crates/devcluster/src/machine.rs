//! Installs the Debian packages the cluster runs on.

use std::path::Path;
use std::process::Command;

use snafu::{ResultExt, Snafu};

use crate::command::{self, CommandError};
use crate::progress::Step;

/// Each package with a file by which its presence is told; asking dpkg would miss programs from elsewhere.
const PACKAGES: [(&str, &[&str]); 10] = [
    ("containerd", &["/usr/bin/containerd", "/usr/local/bin/containerd"]),
    ("runc", &["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"]),
    ("containernetworking-plugins", &["/usr/lib/cni/ptp"]),
    ("iproute2", &["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"]),
    ("nftables", &["/usr/sbin/nft"]),
    ("iptables", &["/usr/sbin/iptables"]),
    ("conntrack", &["/usr/sbin/conntrack"]),
    ("util-linux", &["/usr/bin/nsenter"]),
    ("mmdebstrap", &["/usr/bin/mmdebstrap"]),
    ("xfsprogs", &["/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"]),
];

/// The machine cannot run a cluster.
#[derive(Debug, Snafu)]
pub enum MachineError {
    /// Packages could not be installed.
    #[snafu(display("failed to install the packages {packages}"))]
    Install {
        /// Which.
        packages: String,
        /// The cause.
        source: CommandError,
    },
    /// Only root may make network namespaces and mounts.
    #[snafu(display("failed to use this machine: the cluster needs root"))]
    NotRoot,
}

/// Installs what is missing.
pub fn prepare() -> Result<(), MachineError> {
    if !rustix::process::geteuid().is_root() {
        return Err(MachineError::NotRoot);
    }
    let missing = missing(|file| Path::new(file).exists());
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    let step = Step::start(format!("installing {packages}"));
    // The lists of a fresh machine are often empty or stale: try without them first, as that is quick.
    if install(&missing).is_err() {
        apt(&["update"]).context(InstallSnafu { packages: &packages })?;
        install(&missing).context(InstallSnafu { packages: &packages })?;
    }
    if missing.contains(&"containerd") && Path::new("/run/systemd/system").exists() {
        // Debian starts what it installs. Nobody uses that one, and the nodes have their own.
        let _ = command::run("systemctl", ["disable", "--now", "containerd.service"]);
    }
    step.done();
    Ok(())
}

fn missing(exists: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let absent = PACKAGES.iter().filter(|(_, files)| !files.iter().any(|file| exists(file)));
    absent.map(|(package, _)| *package).collect()
}

fn install(packages: &[&str]) -> Result<(), CommandError> {
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    apt(&arguments)
}

fn apt(arguments: &[&str]) -> Result<(), CommandError> {
    let mut apt = Command::new("apt-get");
    // Another apt may be at work on the machine.
    apt.args(["-o", "DPkg::Lock::Timeout=300", "-q"]).args(arguments);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    command::run_command(&mut apt).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        assert_eq!(missing(|file| file != "/usr/sbin/nft"), ["nftables"]);
        assert!(missing(|_| true).is_empty());
        assert_eq!(missing(|_| false).len(), PACKAGES.len());
    }
}
