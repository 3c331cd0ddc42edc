//! What runs, what is ready, and how much memory it takes.

use std::{fmt, fs};

use jiff::Timestamp;
use snafu::ResultExt;

use crate::cgroups::Cgroups;
use crate::cluster::{Cluster, ClusterError, FindGroupsSnafu, ReadinessSnafu};
use crate::node::Node;
use crate::process::Daemon;
use crate::readiness;

/// The state of the cluster at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether the API server answers.
    pub is_answering: bool,
    /// The programs beside the nodes.
    pub control_plane: Vec<Part>,
    /// The nodes.
    pub nodes: Vec<NodeStatus>,
    /// Memory of everything, pods included.
    pub memory: Memory,
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its zone.
    pub zone: &'static str,
    /// Whether Kubernetes calls it ready.
    pub is_ready: bool,
    /// Its own programs.
    pub programs: Vec<Part>,
    /// Its pods and their shims are counted here too.
    pub memory: Memory,
}

/// One program.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub is_running: bool,
    /// What it uses, with what it started.
    pub memory: Memory,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident, with shared pages counted in every process.
    pub resident: u64,
    /// Resident, with shared pages divided among those who share them: this adds up.
    pub proportional: u64,
}

impl Memory {
    fn of(cgroups: &Cgroups, group: &str) -> Self {
        let read = |pid: i32| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        cgroups.processes(group).into_iter().map(read).fold(Self::default(), |sum, rollup| Self {
            resident: sum.resident + field(&rollup, "Rss:"),
            proportional: sum.proportional + field(&rollup, "Pss:"),
        })
    }
}

fn field(rollup: &str, name: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok());
    kibibytes.unwrap_or(0_u64) * 1024
}

impl fmt::Display for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes / (1024 * 1024);
        write!(formatter, "{} MiB (RSS {} MiB)", mebibytes(self.proportional), mebibytes(self.resident))
    }
}

/// Looks at the cluster.
pub(crate) async fn status(cluster: &Cluster) -> Result<Status, ClusterError> {
    let cgroups = Cgroups::find().context(FindGroupsSnafu)?;
    let is_answering = cluster.is_answering().await?;
    let ready = if is_answering {
        let client = cluster.client().await?;
        readiness::ready_nodes(&client, Timestamp::UNIX_EPOCH).await.context(ReadinessSnafu)?
    } else {
        Vec::new()
    };
    let nodes = cluster.nodes();
    let nodes = nodes.iter().map(|node| node_status(&cgroups, node, &ready)).collect();
    Ok(Status {
        is_answering,
        control_plane: cluster.control_plane().iter().map(|daemon| part(&cgroups, daemon)).collect(),
        nodes,
        memory: Memory::of(&cgroups, crate::layout::CGROUP),
    })
}

fn node_status(cgroups: &Cgroups, node: &Node, ready: &[String]) -> NodeStatus {
    NodeStatus {
        name: node.name(),
        zone: node.layout().zone(),
        // The API calls a node ready for most of a minute after it lost its power.
        is_ready: ready.contains(&node.name()) && node.is_running().unwrap_or(false),
        programs: node.daemons().iter().map(|daemon| part(cgroups, daemon)).collect(),
        memory: Memory::of(cgroups, &node.layout().group()),
    }
}

fn part(cgroups: &Cgroups, daemon: &Daemon) -> Part {
    Part {
        name: daemon.group.rsplit('/').next().unwrap_or_default().to_owned(),
        is_running: daemon.is_running(cgroups),
        memory: Memory::of(cgroups, &daemon.group),
    }
}

impl Status {
    /// Whether all that should run does.
    pub fn is_healthy(&self) -> bool {
        self.is_answering && self.nodes.iter().all(|node| node.is_ready)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = if self.is_answering { "answers" } else { "does not answer" };
        writeln!(formatter, "control plane {answer}")?;
        for part in &self.control_plane {
            writeln!(formatter, "  {part}")?;
        }
        for node in &self.nodes {
            let ready = if node.is_ready { "ready" } else { "not ready" };
            writeln!(formatter, "{} ({}) {ready}  {}", node.name, node.zone, node.memory)?;
            for part in &node.programs {
                writeln!(formatter, "  {part}")?;
            }
        }
        write!(formatter, "all  {}", self.memory)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_running {
            write!(formatter, "{:<24} {}", self.name, self.memory)
        } else {
            write!(formatter, "{:<24} not running", self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_summary() {
        let rollup = "55e0-7ffc ---p 00000000 00:00 0 [rollup]\nRss:            2048 kB\nPss:            1024 kB\n\
                      Pss_Dirty:       512 kB\n";
        assert_eq!((field(rollup, "Rss:"), field(rollup, "Pss:")), (2 << 20, 1 << 20));
        assert_eq!(field("", "Pss:"), 0);
    }
}
