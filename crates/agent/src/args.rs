//! What the program can be told from outside: the only place that reads flags and environment.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Looks after the server of a Valkey pod.
#[derive(Debug, Parser)]
#[command(name = "valkey-agent", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub mode: Mode,
}

/// The modes.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// Copy this program into a directory that the server's container shares
    Init(InitArgs),
    /// Write the server's configuration, wait if it must not start yet, and become the server
    Gate(GateArgs),
    /// Startup and readiness probe: the server answers, takes writes if it leads, and knew who owns every slot; a new users file is
    /// loaded on the way
    Ready(ReadyArgs),
    /// Run beside the server: look at it, and tell the operator what is seen
    Sidecar(SidecarArgs),
}

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// The shared directory
    #[arg(long, default_value = "/agent")]
    pub to: PathBuf,
}

/// Where the modes find what they share.
#[derive(Debug, clap::Args)]
pub struct Places {
    /// Directory that lives as long as the pod: the final configuration, the server's socket, our notes
    #[arg(long, default_value = "/run/valkey")]
    pub run: PathBuf,
    /// Directory with a password file for each of `_agent` and `_replication`
    #[arg(long, default_value = "/etc/valkey-agent")]
    pub secrets: PathBuf,
    /// The users file the server starts with
    #[arg(long, default_value = "/etc/valkey-users/users.acl")]
    pub users: PathBuf,
}

/// Whether the data of a server outlives its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Data {
    /// It is in memory only, or written down in a way nobody counts on
    Volatile,
    /// It is on a disk, though the last writes before a crash may be missing
    Kept,
}

/// Something that is done or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// It is done
    On,
    /// It is not
    Off,
}

/// Arguments of `gate`.
#[derive(Debug, clap::Args)]
pub struct GateArgs {
    /// Whether the data of a server outlives its process
    #[arg(long, value_enum)]
    pub data: Data,
    /// The configuration, without what only the pod knows
    #[arg(long, default_value = "/etc/valkey/valkey.conf")]
    pub base: PathBuf,
    /// The server's directory
    #[arg(long, default_value = "/data")]
    pub data_dir: PathBuf,
    /// Shared with `ready`.
    #[command(flatten)]
    pub places: Places,
    /// The pod's address, which the server announces to its peers
    #[arg(long, env = "POD_IP")]
    pub pod_ip: IpAddr,
    /// How long a primary that crashed waits for one of its replicas to take over, for example `20s`
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub peer_wait: Duration,
    /// The name in the certificates of peers; without it, one that our own certificate carries
    #[arg(long)]
    pub peer_name: Option<String>,
    /// The server (`valkey-server`), and what follows its configuration file
    #[arg(last = true)]
    pub server: Vec<String>,
}

/// Arguments of `ready`.
#[derive(Debug, clap::Args)]
pub struct ReadyArgs {
    /// How long to wait for a pod that is not ready yet, for example `10s`
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub wait: Duration,
    /// How long a server that may have been replaced waits for its replicas before it takes writes without them
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub replica_wait: Duration,
    /// Shared with `gate`.
    #[command(flatten)]
    pub places: Places,
}

/// Arguments of `sidecar`.
#[derive(Debug, clap::Args)]
pub struct SidecarArgs {
    /// Where the operator listens for agents
    #[arg(long, default_value = "valkey-operator-agents.valkey-operator-system.svc:17379")]
    pub operator: String,
    /// Directory with our certificate (`tls.crt`), its key (`tls.key`) and those we trust (`ca.crt`)
    #[arg(long, default_value = "/etc/valkey-mtls")]
    pub mtls: PathBuf,
    /// The configuration, without what only the pod knows
    #[arg(long, default_value = "/etc/valkey/valkey.conf")]
    pub base: PathBuf,
    /// The pod's uid, which tells it from others of its name
    #[arg(long, env = "POD_UID")]
    pub pod_uid: String,
    /// Where `/healthz`, `/readyz` and `/metrics` are served
    #[arg(long, default_value = "0.0.0.0:18369")]
    pub health: SocketAddr,
    /// Where agents of the same cluster and the operator are answered, by gRPC over TLS
    #[arg(long, default_value = "0.0.0.0:17369")]
    pub grpc: SocketAddr,
    /// Whether a replica is told to take over when the server dies, and whether ours does when it is told
    #[arg(long, env = "FAILOVER", value_enum, default_value = "on")]
    pub failover: Switch,
    /// How long a primary takes writes after most of those who have a say about it were reached, for example `2s`
    #[arg(long, env = "LEASE", default_value = "2s", value_parser = duration)]
    pub lease: Duration,
    /// How long a primary is missed before it is replaced: one and a half times the lease at least
    #[arg(long, env = "SUSPICION", default_value = "3s", value_parser = duration)]
    pub suspicion: Duration,
    /// Where the agent beside a server is (`<server's address>=<agent's address>`), if not on port 17369 of the server's address: several
    /// pods on one address exist in tests only
    #[arg(long, hide = true, value_parser = peer)]
    pub peer: Vec<(SocketAddr, SocketAddr)>,
    /// Where the agent beside the server of a name is (`<name>=<agent's address>`), if the name is known to nobody: in tests only
    #[arg(long, hide = true, value_parser = host)]
    pub host: Vec<(String, SocketAddr)>,
    /// How often the operator hears of us if nothing happens
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub heartbeat: Duration,
    /// Shared with `gate` and `ready`.
    #[command(flatten)]
    pub places: Places,
}

/// Reads `20s` or `250ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit): (_, fn(u64) -> Duration) = match text.strip_suffix("ms") {
        Some(number) => (number, Duration::from_millis),
        None => (text.strip_suffix('s').unwrap_or_default(), Duration::from_secs),
    };
    number.parse().map(unit).map_err(|_| format!("{text:?} is no duration like 20s or 250ms"))
}

/// Reads `10.0.0.1:6379=10.0.0.1:17369`.
fn peer(text: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let read = |(server, agent): (&str, &str)| Some((server.parse().ok()?, agent.parse().ok()?));
    text.split_once('=').and_then(read).ok_or_else(|| format!("{text:?} is no pair of addresses"))
}

/// Reads `valkey-cache-0-0.team.svc=10.0.0.1:17369`.
fn host(text: &str) -> Result<(String, SocketAddr), String> {
    let read = |(name, agent): (&str, &str)| Some((name.to_owned(), agent.parse().ok()?));
    text.split_once('=').and_then(read).ok_or_else(|| format!("{text:?} is no name with an address"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_fit_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "s", "20", "-1s", "1m", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn peers_have_two_addresses() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(peer("127.0.0.1:1=127.0.0.1:2"), Ok((at(1), at(2))));
        for text in ["", "127.0.0.1:1", "127.0.0.1=127.0.0.1:2", "a:1=b:2"] {
            assert!(peer(text).is_err(), "{text:?}");
        }
    }
}
