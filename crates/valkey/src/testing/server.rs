//! One server as a child process.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process_group};
use snafu::{OptionExt, ResultExt, Snafu};
use tempfile::TempDir;

use super::ports::with_bus;
use super::{Release, free_port};
use crate::Target;

/// A server that did not come up.
#[derive(Debug, Snafu)]
pub enum StartError {
    /// The program is not in the cache.
    #[snafu(display("failed to find {}: run `make images` to unpack the Valkey images", path.display()))]
    FindProgram {
        /// Where it should be.
        path: PathBuf,
    },
    /// The system did not let us.
    #[snafu(display("failed to start a server: {step}"))]
    Prepare {
        /// What failed.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The server ended, or never answered.
    #[snafu(display("failed to start a server, which said: {log}"))]
    Run {
        /// What the server wrote.
        log: String,
    },
}

/// A running server. It is killed, and its files are removed, when this is dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    group: Pid,
    port: u16,
    tls_port: Option<u16>,
    directory: TempDir,
}

/// How long a server may take to answer: long, because a busy machine is no failure of the server.
const PATIENCE: Duration = Duration::from_secs(20);

impl Server {
    /// Starts a server with these lines added to its configuration, and waits until it answers.
    pub fn start(release: Release, conf: &str) -> Result<Self, StartError> {
        Self::retry(release, conf, false)
    }

    /// The same with a port for TLS, whose certificates are up to the lines.
    pub fn start_with_tls(release: Release, conf: &str) -> Result<Self, StartError> {
        Self::retry(release, conf, true)
    }

    fn retry(release: Release, conf: &str, tls: bool) -> Result<Self, StartError> {
        let mut attempts = 5;
        loop {
            attempts -= 1;
            match Self::launch(release, conf, tls) {
                // Somebody took the port between our look and the server's.
                Err(StartError::Run { log }) if attempts > 0 && log.contains("in use") => {}
                result => return result,
            }
        }
    }

    fn launch(release: Release, conf: &str, tls: bool) -> Result<Self, StartError> {
        let program = release.program("valkey-server");
        if !program.exists() {
            return FindProgramSnafu { path: program }.fail();
        }
        let directory = TempDir::with_prefix("valkey-").context(PrepareSnafu { step: "make a directory" })?;
        let find = || free_port().context(PrepareSnafu { step: "find a port" });
        let (port, bus_port) = with_bus().context(PrepareSnafu { step: "find a port" })?;
        let tls_port = if tls { Some(find()?) } else { None };
        let path = directory.path().display();
        let text = format!(
            "bind 127.0.0.1\nport {port}\ncluster-port {bus_port}\ntls-port {}\ndir {path}\n\
             unixsocket {path}/valkey.sock\nsave \"\"\nlogfile \"\"\nrepl-diskless-sync-delay 0\n{conf}\n",
            tls_port.unwrap_or_default(),
        );
        let file = directory.path().join("valkey.conf");
        fs::write(&file, text).context(PrepareSnafu { step: "write its configuration" })?;
        let log =
            fs::File::create(directory.path().join("log")).context(PrepareSnafu { step: "make a log" })?;
        let errors = log.try_clone().context(PrepareSnafu { step: "share the log" })?;
        let process = Command::new(program)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // A group of its own: signals reach the server even if a wrapper started it.
            .process_group(0)
            .spawn()
            .context(PrepareSnafu { step: "run the program" })?;
        let group = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let group = group.context(RunSnafu { log: "no process id" })?;
        let mut server = Self { process, group, port, tls_port, directory };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    fn wait_until_it_answers(&mut self) -> Result<(), StartError> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.process.try_wait().context(PrepareSnafu { step: "look after it" })?.is_some() {
                break;
            }
            if answers(&self.socket()).is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        RunSnafu { log: self.log() }.fail()
    }

    /// Port without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Port with TLS, if it was asked for.
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// The unix socket, which every server has.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("valkey.sock")
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The server over plain TCP.
    pub fn target(&self) -> Target {
        Target::tcp("127.0.0.1", self.port)
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Whether the process is still there.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Stops the process where it stands (SIGSTOP): the kernel still accepts connections, nobody answers.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen server go on (SIGCONT).
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends the process at once (SIGKILL).
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        // The process is gone or was gone: both is what was asked for.
        let _ = self.process.wait();
    }

    fn signal(&self, signal: Signal) {
        // Fails only for a process that is gone already.
        let _ = kill_process_group(self.group, signal);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that was waited for may have given its number to another one.
        if self.is_running() {
            self.kill();
        }
    }
}

/// Any answer will do, a refusal for want of a password included.
fn answers(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    stream.read_exact(&mut [0])
}
