//! Runs one external program to its end and explains its failure.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, ExitStatus, Output, Stdio};

use snafu::{ResultExt, Snafu, ensure};

/// Lines of a failed program's stderr that are kept: enough for the cause, not its whole progress report.
const KEPT_LINES: usize = 8;

/// An external program that could not be run, or said no.
#[derive(Debug, Snafu)]
pub enum CommandError {
    /// The program is missing or may not be executed.
    #[snafu(display("failed to start {program}"))]
    Start {
        /// The program's name.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The program ran and ended with an error.
    #[snafu(display("failed to run {command_line} ({status}): {stderr}"))]
    Failed {
        /// The program and its arguments.
        command_line: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
}

/// Runs `program` and returns what it wrote to stdout.
pub fn run<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String, CommandError> {
    let mut command = Command::new(program);
    command.args(arguments);
    run_command(&mut command)
}

/// Runs a prepared `command` and returns what it wrote to stdout.
pub fn run_command(command: &mut Command) -> Result<String, CommandError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().context(StartSnafu { program })?;
    let Output { status, stdout, stderr } = output;
    ensure!(
        status.success(),
        FailedSnafu { command_line: command_line(command), status, stderr: last_lines(&stderr) }
    );
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(KEPT_LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_stdout() {
        assert_eq!(run("echo", ["one", "two"]).unwrap(), "one two\n");
    }

    #[test]
    fn a_failure_names_the_command_and_its_last_words() {
        let error = run("sh", ["-c", "echo first >&2; echo 'no such thing' >&2; exit 3"]).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("failed to run sh -c"), "{message}");
        assert!(message.ends_with("first; no such thing"), "{message}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run("no-such-program", [""; 0]).unwrap_err();
        assert_eq!(error.to_string(), "failed to start no-such-program");
    }
}
