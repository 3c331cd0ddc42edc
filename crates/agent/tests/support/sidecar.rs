//! Sidecars as processes of their own, beside the servers of pods.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use pki::{Authority, Role};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use valkey::SlotRange;
use valkey::testing::Release;

use super::operator::{identity, papers};
use super::{Pod, eventually, lasting_port};

/// What the pod of [`pod`] is called.
pub(crate) const POD: &str = "valkey-cache-0-0-0";

/// The sidecar of a pod.
pub(crate) struct Sidecar {
    pub(crate) process: Child,
    health: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Give a pod its certificate, in the name of this one.
pub(crate) fn sign(pod: &Pod, authority: &Authority, name: &str) {
    let directory = pod.path("mtls");
    fs::create_dir_all(&directory).unwrap();
    for (file, text) in papers(authority, identity(Role::Sidecar, Some(name))) {
        fs::write(directory.join(file), text).unwrap();
    }
}

pub(crate) fn said_in_the_log(pod: &Pod) -> String {
    fs::read_to_string(pod.path("sidecar.log")).unwrap_or_default()
}

/// An address that is still free when somebody comes back to it.
pub(crate) fn lasting_address() -> SocketAddr {
    ([127, 0, 0, 1], lasting_port()).into()
}

impl Sidecar {
    pub(crate) fn start(pod: &Pod, operator: SocketAddr, flags: &[String]) -> Self {
        Self::start_at(pod, operator, lasting_address(), flags)
    }

    /// One that answers callers at this address.
    pub(crate) fn start_at(pod: &Pod, operator: SocketAddr, grpc: SocketAddr, flags: &[String]) -> Self {
        let health = lasting_address();
        let log = fs::File::options().create(true).append(true).open(pod.path("sidecar.log")).unwrap();
        let process = pod
            .agent("sidecar")
            .args(["--operator", &operator.to_string(), "--pod-uid", "7c1e", "--heartbeat", "1s"])
            .args(["--health", &health.to_string(), "--grpc", &grpc.to_string()])
            .args(flags)
            .arg("--mtls")
            .arg(pod.path("mtls"))
            .arg("--base")
            .arg(pod.path("base.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { process, health, grpc }
    }

    pub(crate) async fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.health).await.ok()?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    }
}

/// A pod whose server serves, and its sidecar.
pub(crate) async fn pod(release: Release, authority: &Authority) -> (Pod, Sidecar) {
    let mut pod = Pod::new(release, "volatile", "");
    let connection = pod.run().await;
    connection.cluster_add_slots(&[SlotRange::ALL]).await.unwrap();
    sign(&pod, authority, POD);
    let sidecar = Sidecar::start(&pod, ([127, 0, 0, 1], 1).into(), &[]);
    eventually("it looks", || async {
        sidecar.get("/metrics").await?.contains("\nvalkey_agent_server_up 1\n").then_some(())
    })
    .await;
    (pod, sidecar)
}

/// So many callers were refused something for this reason: the one who is refused may know it before it is counted.
pub(crate) async fn counted(sidecar: &Sidecar, reason: &str, expected: u32) {
    eventually("it is counted", || async { (refusals(sidecar, reason).await == expected).then_some(()) })
        .await;
}

/// How many callers were refused something for this reason.
pub(crate) async fn refusals(sidecar: &Sidecar, reason: &str) -> u32 {
    let metrics = sidecar.get("/metrics").await.unwrap();
    let name = format!("valkey_agent_refusals_total{{reason=\"{reason}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
}
