//! Starts programs that outlive the one who started them, and ends them by their ids.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use snafu::{ResultExt, Snafu};

use crate::cgroups::{self, CgroupError, Cgroups};
use crate::command::{self, CommandError};
use crate::files::{self, FileError};
use crate::layout::CHORES_CGROUP;

/// How long a process may take to end after SIGKILL, which it cannot refuse.
const KILL_PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Lines of a dead program's log that are shown: enough for the cause.
const SHOWN_LINES: usize = 15;
/// Enters the control groups first, so that not even a program that ends at once was ever outside of them.
const ENTER_GROUPS: &str =
    r#"for file in $GROUP_FILES; do echo $$ > "$file" || exit 1; done; unset GROUP_FILES; exec "$@""#;
/// Only what the programs need: a proxy in the user's environment must not come between them.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program of the cluster that could not be started or ended.
#[derive(Debug, Snafu)]
pub enum ProcessError {
    /// Its control group.
    #[snafu(display("failed to prepare the control group of {group}"))]
    Group {
        /// The group.
        group: String,
        /// The cause.
        source: CgroupError,
    },
    /// Its log file.
    #[snafu(display("failed to prepare the log of {group}"))]
    Log {
        /// The group.
        group: String,
        /// The cause.
        source: FileError,
    },
    /// Its log file could not be opened.
    #[snafu(display("failed to open the log {}", path.display()))]
    OpenLog {
        /// The log file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The start itself.
    #[snafu(display("failed to start {group}"))]
    Start {
        /// The group.
        group: String,
        /// The cause.
        source: CommandError,
    },
    /// Some of its processes do not end.
    #[snafu(display("failed to end the processes {pids:?} of {group} within {KILL_PATIENCE:?}"))]
    StillAlive {
        /// The group.
        group: String,
        /// Those that are left.
        pids: Vec<i32>,
    },
    /// The system refused to signal a process.
    #[snafu(display("failed to signal process {pid} of {group}"))]
    Signal {
        /// The group.
        group: String,
        /// The process.
        pid: i32,
        /// What the system said.
        source: rustix::io::Errno,
    },
}

/// A chore that failed.
#[derive(Debug, Snafu)]
pub enum ChoreError {
    #[snafu(display("failed to prepare a control group"))]
    ChoreGroup { source: CgroupError },
    #[snafu(display("failed to do a chore"))]
    Chore { source: CommandError },
}

/// A program to run until it is ended.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The control group that is its alone.
    pub group: String,
    /// The network namespace to run in; none for the machine's own.
    pub namespace: Option<PathBuf>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where its output goes.
    pub log: PathBuf,
}

impl Daemon {
    /// Starts the program, unless it runs already.
    pub fn start(&self, cgroups: &Cgroups) -> Result<(), ProcessError> {
        let group = &self.group;
        if self.is_running(cgroups) {
            return Ok(());
        }
        cgroups.create(group).context(GroupSnafu { group })?;
        if let Some(folder) = self.log.parent() {
            files::create_folder(folder).context(LogSnafu { group })?;
        }
        let log = fs::File::options().create(true).append(true).open(&self.log);
        let log = log.context(OpenLogSnafu { path: &self.log })?;
        let errors = log.try_clone().context(OpenLogSnafu { path: &self.log })?;

        let mut start = Command::new("setsid");
        start.args(["--fork", "sh", "-c", ENTER_GROUPS, "sh"]);
        if let Some(namespace) = &self.namespace {
            start.arg("nsenter").arg(format!("--net={}", namespace.display())).arg("--");
        }
        start.args(&self.command).current_dir("/").stdin(Stdio::null()).stdout(log).stderr(errors);
        start
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("HOME", "/root")
            .env("GROUP_FILES", entrances(cgroups, group));
        let status = start.status();
        let program = "setsid".to_owned();
        let status = status.map_err(|source| CommandError::Start { program, source });
        let status = status.context(StartSnafu { group })?;
        if !status.success() {
            let stderr = format!("see {}", self.log.display());
            let failed = CommandError::Failed { command_line: self.command.join(" "), status, stderr };
            return Err(failed).context(StartSnafu { group });
        }
        // setsid returns before its child has entered the groups.
        let deadline = Instant::now() + Duration::from_secs(2);
        while !self.is_running(cgroups) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Whether any process of the program lives.
    pub fn is_running(&self, cgroups: &Cgroups) -> bool {
        !cgroups.processes(&self.group).is_empty()
    }

    /// How much the program has written to its log, over all its runs.
    pub fn log_length(&self) -> u64 {
        fs::metadata(&self.log).map(|log| log.len()).unwrap_or_default()
    }

    /// What it wrote after so much. A log that is shorter was begun anew.
    pub fn said_since(&self, length: u64) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(length).ok().filter(|from| *from <= text.len()).unwrap_or_default();
        String::from_utf8_lossy(&text[from..]).into_owned()
    }

    /// The end of the program's log, to explain why it ended.
    pub fn last_words(&self) -> String {
        last_lines(&self.log)
    }
}

/// The last lines of a log.
pub(crate) fn last_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

/// Asks the processes of `group` to end, and kills those that have not after `patience`.
pub(crate) fn stop(cgroups: &Cgroups, group: &str, patience: Duration) -> Result<(), ProcessError> {
    for pid in cgroups.processes(group) {
        signal(group, pid, Signal::TERM)?;
    }
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if cgroups.processes(group).is_empty() {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    kill(cgroups, group)
}

/// Kills every process of `group` in one stroke: none of them sees another one end.
pub(crate) fn kill(cgroups: &Cgroups, group: &str) -> Result<(), ProcessError> {
    let deadline = Instant::now() + KILL_PATIENCE;
    loop {
        let pids = cgroups.processes(group);
        if pids.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return StillAliveSnafu { group, pids }.fail();
        }
        cgroups.set_frozen(group, true).context(GroupSnafu { group })?;
        // Listed again: what was started until the freeze took hold is caught as well.
        let killed =
            cgroups.processes(group).into_iter().try_for_each(|pid| signal(group, pid, Signal::KILL));
        // A frozen process of control groups version 1 does not even die.
        cgroups.set_frozen(group, false).context(GroupSnafu { group })?;
        killed?;
        thread::sleep(POLL);
    }
}

/// Signals a process of `group`, and nobody else: the pidfd holds on to the process while its membership is checked,
/// so that an id which was given to another process in between is never hit.
fn signal(group: &str, pid: i32, signal: Signal) -> Result<(), ProcessError> {
    let Some(process) = Pid::from_raw(pid) else { return Ok(()) };
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return Ok(()) };
    let listed = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if !cgroups::is_member(&listed, group) {
        return Ok(());
    }
    match pidfd_send_signal(&handle, signal) {
        Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
        Err(source) => Err(ProcessError::Signal { group: group.to_owned(), pid, source }),
    }
}

/// Runs a longer chore to its end, in a control group: if this process is killed, whoever clears up finds it.
pub(crate) fn run_chore<A: AsRef<OsStr>>(
    cgroups: &Cgroups,
    command: impl IntoIterator<Item = A>,
) -> Result<String, ChoreError> {
    cgroups.create(CHORES_CGROUP).context(ChoreGroupSnafu)?;
    let mut chore = Command::new("sh");
    chore
        .args(["-c", ENTER_GROUPS, "sh"])
        .args(command)
        .env("GROUP_FILES", entrances(cgroups, CHORES_CGROUP));
    command::run_command(&mut chore).context(ChoreSnafu)
}

/// Ends the chores of a run that was cut off. Only for who holds the cluster's lock: nobody else then has any.
pub(crate) fn end_chores(cgroups: &Cgroups) -> Result<(), ProcessError> {
    kill(cgroups, CHORES_CGROUP)
}

fn entrances(cgroups: &Cgroups, group: &str) -> String {
    cgroups.entrances(group).iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

/// Runs a program in a network namespace to its end.
pub(crate) fn run_in(namespace: &Path, command: &[&str]) -> Result<String, CommandError> {
    let net = format!("--net={}", namespace.display());
    command::run("nsenter", [&[net.as_str(), "--"], command].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_outside_the_group_is_not_signalled() {
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(other.id()).unwrap();
        signal("vkdev/no-such-group", pid, Signal::KILL).unwrap();
        assert!(other.try_wait().unwrap().is_none(), "the process must still run");
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn an_ended_process_is_no_error() {
        let mut ended = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(ended.id()).unwrap();
        ended.wait().unwrap();
        signal("vkdev", pid, Signal::KILL).unwrap();
    }
}
