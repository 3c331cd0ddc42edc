//! What the tests share: a pod without Kubernetes, clusters of them, patience.

pub(crate) mod caller;
pub(crate) mod cluster;
pub(crate) mod operator;
pub(crate) mod sidecar;

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use valkey::testing::Release;
pub(crate) use valkey::testing::eventually;
use valkey::{Connection, Deadlines, Target};

/// A busy machine must not fail tests that are not about time.
const RELAXED: Deadlines = Deadlines { connect: Duration::from_secs(10), command: Duration::from_secs(10) };

/// How long anything may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const AGENT_PASSWORD: &str = "hush-agent";
/// Whatever a password may hold, the server must read it as it is.
pub(crate) const REPLICATION_PASSWORD: &str = "hush \"replication\" #1";
const REPLICATION_HASH: &str = "4a71ef9673fb548058d26a918f658b3a6c5771cc2904af562378075f65872ae7";

/// The directories of a pod and the process in its one container. What starts again in it finds everything but the process.
pub(crate) struct Pod {
    release: Release,
    pub(crate) data: &'static str,
    /// More flags of the gate.
    pub(crate) flags: Vec<&'static str>,
    port: u16,
    root: TempDir,
    process: Option<Child>,
}

impl Pod {
    /// A pod whose server gets these lines, and is not started yet.
    pub(crate) fn new(release: Release, data: &'static str, conf: &str) -> Self {
        let root = TempDir::with_prefix("pod-").expect("should make a directory");
        let (port, bus_port) = (lasting_port(), lasting_port());
        for directory in ["data", "run", "secrets"] {
            fs::create_dir(root.path().join(directory)).expect("should make a directory");
        }
        let path = root.path().display();
        let base = format!(
            "bind 127.0.0.1\nport {port}\ncluster-port {bus_port}\ncluster-enabled yes\ndir {path}/data\n\
             aclfile {path}/users.acl\nunixsocket {path}/run/valkey.sock\nprimaryuser _replication\n\
             save \"\"\nrepl-diskless-sync-delay 0\n{conf}\n"
        );
        let pod = Self { release, data, flags: vec!["--peer-wait", "60s"], port, root, process: None };
        fs::write(pod.path("base.conf"), base).expect("should write");
        fs::write(pod.path("secrets/_agent"), AGENT_PASSWORD).expect("should write");
        fs::write(pod.path("secrets/_replication"), REPLICATION_PASSWORD).expect("should write");
        pod.write_users("");
        pod
    }

    /// The users file: those of the system, one for the test, and these lines.
    pub(crate) fn write_users(&self, more: &str) {
        let users = [
            "user default on nopass ~* &* +@all".to_owned(),
            format!(
                "user _agent on >{AGENT_PASSWORD} resetchannels -@all +ping +info +cluster|info +cluster|nodes \
                 +cluster|failover +cluster|meet +config|get +config|set +acl|list +acl|load"
            ),
            format!("user _replication on #{REPLICATION_HASH} resetchannels -@all +psync +replconf +ping"),
            more.to_owned(),
        ];
        fs::write(self.path("users.acl"), users.join("\n") + "\n").expect("should write");
    }

    /// The same users, none of which has this rule.
    pub(crate) fn write_users_without(&self, rule: &str) {
        let users = fs::read_to_string(self.path("users.acl")).expect("should read");
        fs::write(self.path("users.acl"), users.replace(rule, "")).expect("should write");
    }

    /// A server of its own, outside of any cluster.
    pub(crate) fn leave_the_cluster(&self) {
        let base = fs::read_to_string(self.path("base.conf")).expect("should read");
        let base = base.replace("cluster-enabled yes", "cluster-enabled no");
        fs::write(self.path("base.conf"), base).expect("should write");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// One more line of the configuration.
    pub(crate) fn configure(&self, line: &str) {
        let mut base = File::options().append(true).open(self.path("base.conf")).expect("should open");
        writeln!(base, "{line}").expect("should write");
    }

    /// The pod is replaced: another one, at another address, gets its volume and nothing else.
    pub(crate) fn move_to_a_new_pod(&mut self) {
        let base = fs::read_to_string(self.path("base.conf")).expect("should read");
        let (port, bus_port) = (lasting_port(), lasting_port());
        let moved: String = base
            .lines()
            .map(|line| match line.split(' ').next() {
                Some("port") => format!("port {port}\n"),
                Some("cluster-port") => format!("cluster-port {bus_port}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        fs::write(self.path("base.conf"), moved).expect("should write");
        fs::remove_dir_all(self.path("run")).expect("should remove");
        fs::create_dir(self.path("run")).expect("should make a directory");
        self.port = port;
    }

    /// What the last server of the pod left behind: who it was, and that it was there.
    pub(crate) fn leave_behind(&self, nodes_conf: &str) {
        fs::write(self.path("data/nodes.conf"), nodes_conf).expect("should write");
        fs::write(self.path("run/started"), "").expect("should write");
    }

    pub(crate) fn agent(&self, mode: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valkey-agent"));
        command.arg(mode).arg("--run").arg(self.path("run")).arg("--secrets").arg(self.path("secrets"));
        command.arg("--users").arg(self.path("users.acl"));
        command
    }

    /// Starts the container: the gate, which becomes the server.
    pub(crate) fn start(&mut self) {
        let log =
            File::options().create(true).append(true).open(self.path("log")).expect("should make a log");
        let mut gate = self.agent("gate");
        gate.args(["--data", self.data]).args(&self.flags).env("POD_IP", "127.0.0.1");
        gate.arg("--base").arg(self.path("base.conf")).arg("--data-dir").arg(self.path("data"));
        gate.arg("--").arg(self.release.program("valkey-server"));
        gate.stdin(Stdio::null()).stdout(log.try_clone().expect("should share the log")).stderr(log);
        self.process = Some(gate.spawn().expect("should start"));
    }

    /// Starts the container and waits until the server answers.
    pub(crate) async fn run(&mut self) -> Connection {
        self.start();
        self.connect().await
    }

    /// A connection as soon as the server answers, loaded and all.
    pub(crate) async fn connect(&self) -> Connection {
        eventually(&format!("the server answers: {}", self.log()), || async {
            let target = Target::tcp("127.0.0.1", self.port).with_deadlines(RELAXED);
            let connection = Connection::open(&target).await.ok()?;
            connection.ping().await.ok().map(|()| connection)
        })
        .await
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.as_ref().expect("should run").id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id =
            i32::try_from(self.process_id()).ok().and_then(Pid::from_raw).expect("should be a process id");
        kill_process(id, signal).expect("should be there");
    }

    /// The process ends as in a crash.
    pub(crate) fn crash(&mut self) {
        self.signal(Signal::KILL);
        self.end();
    }

    /// Waits for the process to end by itself.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        let process = self.process.as_mut().expect("should run");
        let status = loop {
            if let Some(status) = process.try_wait().expect("should be a child") {
                break status;
            }
            assert!(Instant::now() < end, "did not end in time");
            thread::sleep(Duration::from_millis(10));
        };
        self.process = None;
        status
    }

    /// What gate and server wrote so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Runs the probe: whether the pod is ready, and what the probe said.
    pub(crate) fn ready(&self) -> (bool, String) {
        self.ready_within("0s")
    }

    /// The same with a probe that waits.
    pub(crate) fn ready_within(&self, wait: &str) -> (bool, String) {
        self.ready_with(&["--wait", wait])
    }

    /// The same with any flags.
    pub(crate) fn ready_with(&self, flags: &[&str]) -> (bool, String) {
        let output = self.agent("ready").args(flags).output().expect("should start");
        assert!(output.stdout.is_empty(), "{output:?}");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A port that is still free when the server comes back: those the kernel gives to connections are not.
pub(crate) fn lasting_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        let port = 20_000 + u16::try_from(number).expect("should be below ten thousand");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
