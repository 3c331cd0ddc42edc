//! Looking into pods: running a command in one, following its log.

use std::process::Stdio;

use snafu::{ResultExt, Snafu, ensure};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::cluster::Cluster;

/// A pod could not be looked into.
#[derive(Debug, Snafu)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum PodError {
    #[snafu(display("failed to start kubectl for the pod {pod}"))]
    Start { pod: String, source: std::io::Error },
    #[snafu(display("failed to run a command in the pod {pod}: {output}"))]
    Command { pod: String, output: String },
}

/// Lines of a pod's log as they come; ends when it is dropped.
pub struct LogLines {
    lines: Lines<BufReader<ChildStdout>>,
    // Ends with this value.
    _kubectl: Child,
}

impl LogLines {
    /// The next line; `None` when the container has ended.
    pub async fn next(&mut self) -> std::io::Result<Option<String>> {
        self.lines.next_line().await
    }
}

impl Cluster {
    /// Runs a command in a container of a pod; returns what it printed.
    pub async fn run_in_pod(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        command: &[&str],
    ) -> Result<String, PodError> {
        let mut kubectl = self.kubectl();
        kubectl.args(["-n", namespace, "exec", pod, "-c", container, "--"]).args(command);
        let output = kubectl.output().await.context(StartSnafu { pod })?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let problem = || format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), CommandSnafu { pod, output: problem() });
        Ok(printed)
    }

    /// Follows the log of a container from its beginning.
    pub fn follow_log(&self, namespace: &str, pod: &str, container: &str) -> Result<LogLines, PodError> {
        let mut kubectl = self.kubectl();
        kubectl.args(["-n", namespace, "logs", "--follow", pod, "-c", container]);
        let mut child = kubectl.stdout(Stdio::piped()).spawn().context(StartSnafu { pod })?;
        let taken = child.stdout.take().ok_or_else(|| std::io::Error::other("its output is not ours"));
        let output = taken.context(StartSnafu { pod })?;
        Ok(LogLines { lines: BufReader::new(output).lines(), _kubectl: child })
    }
}
