//! One process, told apart from a later one with the same id, and the signals that stop, continue and kill it.

use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use snafu::ResultExt;

use super::error::{FaultError, SignalSnafu};

/// A process on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// When it started, in the kernel's ticks since boot.
    pub started: u64,
}

impl Process {
    /// The process that runs under this id now.
    pub fn running(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, started: start_time(&stat)? })
    }

    /// Ends it at once; it cannot object. There is nothing to undo.
    pub fn kill(&self) -> Result<(), FaultError> {
        self.signal("kill", Signal::KILL)
    }

    pub(super) fn stop(&self) -> Result<(), FaultError> {
        self.signal("stop", Signal::STOP)
    }

    pub(super) fn cont(&self) -> Result<(), FaultError> {
        self.signal("continue", Signal::CONT)
    }

    /// The handle holds on to the process while its start is compared, so a later process is never hit. One that has
    /// ended needs no signal.
    fn signal(&self, action: &'static str, signal: Signal) -> Result<(), FaultError> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(()) };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
        if Self::running(self.pid).as_ref() != Some(self) {
            return Ok(());
        }
        match pidfd_send_signal(&handle, signal).map_err(io::Error::from) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(()),
            result => result.context(SignalSnafu { action, pid: self.pid }),
        }
    }
}

/// The program's name, the second field, may hold blanks and parentheses; the start is the 22nd field.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> (Child, Process) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::running(i32::try_from(child.id()).unwrap()).unwrap();
        (child, process)
    }

    fn state(process: &Process) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    #[test]
    fn reads_the_start_behind_an_odd_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(start_time(stat), Some(4242));
    }

    #[test]
    fn stops_continues_and_kills() {
        let (mut child, process) = sleeper();
        process.stop().unwrap();
        while state(&process) != 'T' {
            std::thread::yield_now();
        }
        process.cont().unwrap();
        while state(&process) == 'T' {
            std::thread::yield_now();
        }
        process.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        process.kill().unwrap();
    }

    #[test]
    fn a_later_process_with_the_same_id_is_left_alone() {
        let (mut child, process) = sleeper();
        Process { started: process.started - 1, ..process }.kill().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
