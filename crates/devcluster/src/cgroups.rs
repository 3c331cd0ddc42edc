//! Control groups: which processes belong to the cluster, as the kernel itself records it.
//!
//! Every process the cluster starts enters a group before it runs, and what it starts inherits that group. So the
//! kernel always knows all of them, also those of a run that was cut off before it could note anything down.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use snafu::{ResultExt, Snafu};

use crate::files::{self, FileError};

/// The machine's control groups could not be used.
#[derive(Debug, Snafu)]
pub enum CgroupError {
    /// The list of mounts, or a group's files.
    #[snafu(display("failed to use control groups"))]
    Files {
        /// The cause.
        source: FileError,
    },
    /// Nothing of type cgroup or cgroup2 is mounted.
    #[snafu(display("failed to find a mounted control group hierarchy"))]
    NotMounted,
    /// A setting of a group was refused.
    #[snafu(display("failed to set {}", path.display()))]
    Set {
        /// The file of the setting.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A group still holds something.
    #[snafu(display("failed to remove the control group {}", path.display()))]
    Remove {
        /// The group.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The control group hierarchies of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups {
    hierarchies: Vec<PathBuf>,
    unified: bool,
}

impl Cgroups {
    /// The hierarchies as they are mounted.
    pub fn find() -> Result<Self, CgroupError> {
        let mounts = files::read(Path::new("/proc/mounts")).context(FilesSnafu)?.unwrap_or_default();
        Self::from_mounts(&mounts).ok_or(CgroupError::NotMounted)
    }

    /// All of them: beside hierarchies of version 1 there is often one of version 2 without controllers, in which
    /// container runtimes make groups as well.
    fn from_mounts(mounts: &str) -> Option<Self> {
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let groups: Vec<Vec<&str>> =
            fields.filter(|fields| matches!(fields.get(2), Some(&("cgroup" | "cgroup2")))).collect();
        let unified = groups.iter().all(|fields| fields[2] == "cgroup2");
        let hierarchies: Vec<PathBuf> = groups.iter().map(|fields| PathBuf::from(fields[1])).collect();
        (!hierarchies.is_empty()).then_some(Self { hierarchies, unified })
    }

    /// Makes `group` in every hierarchy, ready to hold processes.
    pub fn create(&self, group: &str) -> Result<(), CgroupError> {
        for hierarchy in &self.hierarchies {
            let mut path = hierarchy.clone();
            for part in group.split('/') {
                let above = path.clone();
                path.push(part);
                if self.unified {
                    delegate(&above);
                }
                files::create_folder(&path).context(FilesSnafu)?;
                inherit_cpuset(&above, &path)?;
            }
        }
        Ok(())
    }

    /// The files into which a process writes its id to enter `group`.
    pub fn entrances(&self, group: &str) -> Vec<PathBuf> {
        self.hierarchies.iter().map(|hierarchy| hierarchy.join(group).join("cgroup.procs")).collect()
    }

    /// The live processes in `group` and the groups below it.
    pub fn processes(&self, group: &str) -> Vec<i32> {
        let mut pids = BTreeSet::new();
        for hierarchy in &self.hierarchies {
            for folder in tree(&hierarchy.join(group)) {
                let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                pids.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
            }
        }
        pids.into_iter().filter(|pid| is_live(*pid)).collect()
    }

    /// Holds (or lets go) every process of `group` in one stroke.
    pub fn set_frozen(&self, group: &str, frozen: bool) -> Result<(), CgroupError> {
        let (file, value) = match (self.unified, frozen) {
            (true, true) => ("cgroup.freeze", "1"),
            (true, false) => ("cgroup.freeze", "0"),
            (false, true) => ("freezer.state", "FROZEN"),
            (false, false) => ("freezer.state", "THAWED"),
        };
        for hierarchy in &self.hierarchies {
            let top = hierarchy.join(group);
            // A group inside that was frozen on its own stays so when the one above is let go.
            let folders = if frozen { vec![top] } else { tree(&top) };
            for path in folders.into_iter().map(|folder| folder.join(file)).filter(|path| path.exists()) {
                fs::write(&path, value).context(SetSnafu { path })?;
            }
        }
        Ok(())
    }

    /// Removes `group` and the groups below it from every hierarchy. Nothing may live in them.
    pub fn remove(&self, group: &str) -> Result<(), CgroupError> {
        for path in self.existing(group) {
            for folder in tree(&path).into_iter().rev() {
                remove_empty(&folder)?;
            }
        }
        Ok(())
    }

    /// The folders of `group` that exist.
    pub fn existing(&self, group: &str) -> Vec<PathBuf> {
        self.hierarchies.iter().map(|hierarchy| hierarchy.join(group)).filter(|path| path.exists()).collect()
    }
}

/// Whether `/proc/PID/cgroup` says that the process is in `group` or below it.
pub(crate) fn is_member(proc_cgroup: &str, group: &str) -> bool {
    proc_cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| {
        path.strip_prefix('/')
            .and_then(|path| path.strip_prefix(group))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// A zombie stays listed until its parent looks after it, but it holds nothing any more.
fn is_live(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything, also spaces and parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// `path` and every folder below it, parents first.
fn tree(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![path.to_path_buf()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let inner = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(inner.map(|entry| entry.path()));
        found.push(folder);
    }
    found
}

/// A fresh cpuset group of version 1 has no processors and refuses every process.
fn inherit_cpuset(above: &Path, path: &Path) -> Result<(), CgroupError> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let target = path.join(file);
        let is_empty = fs::read_to_string(&target).is_ok_and(|value| value.trim().is_empty());
        if is_empty && let Ok(value) = fs::read_to_string(above.join(file)) {
            fs::write(&target, value.trim()).context(SetSnafu { path: target })?;
        }
    }
    Ok(())
}

/// Lets the groups below `above` use its controllers, one by one: the kernel refuses all if it refuses one.
fn delegate(above: &Path) {
    let controllers = fs::read_to_string(above.join("cgroup.controllers")).unwrap_or_default();
    for controller in controllers.split_whitespace() {
        // A controller that cannot be handed on is one the kubelet does without, or complains about by name.
        let _ = fs::write(above.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

/// The kernel takes a moment to let go of a group after its last process has ended.
fn remove_empty(path: &Path) -> Result<(), CgroupError> {
    let mut attempts = 0;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) if attempts < 50 => attempts += 1,
            Err(source) => return Err(CgroupError::Remove { path: path.into(), source }),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_beside_each_other_are_used() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let cgroups = Cgroups::from_mounts(mounts).unwrap();
        assert!(!cgroups.unified);
        let entrances = cgroups.entrances("vkdev/node-1");
        assert_eq!(entrances.len(), 3);
        assert_eq!(entrances[1], Path::new("/sys/fs/cgroup/freezer/vkdev/node-1/cgroup.procs"));
    }

    #[test]
    fn version_two_alone_is_used() {
        let cgroups = Cgroups::from_mounts("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n").unwrap();
        assert!(cgroups.unified);
    }

    #[test]
    fn membership_is_of_whole_names() {
        let listed = "4:memory:/vkdev/node-1/daemons/kubelet\n0::/\n";
        assert!(is_member(listed, "vkdev"));
        assert!(is_member(listed, "vkdev/node-1"));
        assert!(!is_member(listed, "vkdev/node-11"));
        assert!(!is_member(listed, "vkdev/node"));
        assert!(!is_member("0::/user.slice/vkdev\n", "vkdev"));
    }

    #[test]
    fn this_process_lives() {
        assert!(is_live(i32::try_from(std::process::id()).unwrap()));
    }
}
