//! The section `replication` of INFO: who feeds whom, and how well.

use super::Info;

/// The role a server plays. Valkey writes `master` and `slave`; newer releases may write `primary` and `replica`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum ReplicationRole {
    /// Takes writes.
    Primary,
    /// Follows a primary.
    Replica,
}

impl ReplicationRole {
    /// Reads the word of a server, old or new.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "master" | "primary" => Some(Self::Primary),
            "slave" | "replica" => Some(Self::Replica),
            _ => None,
        }
    }
}

/// The section `replication`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// What the server is.
    pub role: ReplicationRole,
    /// Who follows this server, as it sees them; a replica can have followers of its own.
    pub replicas: Vec<ReplicaLine>,
    /// The link to the primary, on a replica.
    pub primary: Option<PrimaryLink>,
    /// How far this server's history goes.
    pub offset: Option<u64>,
    /// The name of that history: offsets of two servers compare only under the same id.
    pub replication_id: Option<String>,
    /// `no-failover`, or the state of a `FAILOVER` that runs.
    pub failover_state: Option<String>,
}

/// One follower of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaLine {
    /// Address the follower announces, or the one it connects from.
    pub ip: String,
    /// Port the follower announces.
    pub port: u16,
    /// `online`, `wait_bgsave`, `send_bulk` and so on.
    pub state: String,
    /// How far it has acknowledged.
    pub offset: Option<u64>,
    /// Seconds since it last acknowledged.
    pub lag_seconds: Option<u64>,
}

impl ReplicaLine {
    /// Whether the first copy is through, so that the follower receives writes as they happen.
    pub fn is_online(&self) -> bool {
        self.state == "online"
    }
}

/// The link of a replica to its primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryLink {
    /// Host of the primary, as it was given.
    pub host: String,
    /// Port of the primary.
    pub port: u16,
    /// The link is up, and the replica holds the primary's history.
    pub link_up: bool,
    /// The replica receives a full copy just now.
    pub sync_in_progress: bool,
    /// Seconds since the primary was last heard; `None` while the link is down.
    pub last_io_seconds: Option<u64>,
    /// Seconds the link has been down; `None` while it is up, and where it was never up.
    pub link_down_seconds: Option<u64>,
    /// How far the replica has applied what it received.
    pub offset: Option<u64>,
    /// The replica refuses writes of clients.
    pub read_only: bool,
}

impl Replication {
    pub(super) fn read(info: &Info) -> Option<Self> {
        let role = ReplicationRole::parse(info.get("role")?)?;
        Some(Self {
            role,
            replicas: info.fields().filter_map(|(name, value)| replica_line(name, value)).collect(),
            primary: (role == ReplicationRole::Replica).then(|| primary_link(info)).flatten(),
            offset: either_number(info, "master_repl_offset", "primary_repl_offset"),
            replication_id: either(info, "master_replid", "primary_replid").map(str::to_owned),
            failover_state: either(info, "master_failover_state", "primary_failover_state")
                .map(str::to_owned),
        })
    }
}

/// What a replica that holds no position says all the same.
const NO_POSITION: u64 = 1;

impl PrimaryLink {
    /// Whether the replica holds everything that its primary had sent until its position. One that never finished its first copy holds
    /// nothing, or what it had in another life; one whose copy broke off has no position any more.
    pub fn holds_copy(&self) -> bool {
        let was_up = self.link_up || self.link_down_seconds.is_some();
        was_up && !self.sync_in_progress && self.offset.is_some_and(|offset| offset > NO_POSITION)
    }

    /// Whether it was connected so many seconds ago: what its primary acknowledged before, it has.
    pub fn was_up_within(&self, seconds: u64) -> bool {
        self.link_up || self.link_down_seconds.is_some_and(|down| down <= seconds)
    }
}

fn either<'a>(info: &'a Info, old: &str, new: &str) -> Option<&'a str> {
    info.get(old).or_else(|| info.get(new))
}

/// The server writes -1 for "never", which is `None` here like everything that is no count.
fn either_number<N: std::str::FromStr>(info: &Info, old: &str, new: &str) -> Option<N> {
    either(info, old, new)?.trim().parse().ok()
}

fn primary_link(info: &Info) -> Option<PrimaryLink> {
    Some(PrimaryLink {
        host: either(info, "master_host", "primary_host")?.to_owned(),
        port: either_number(info, "master_port", "primary_port")?,
        link_up: either(info, "master_link_status", "primary_link_status") == Some("up"),
        sync_in_progress: info.flag("master_sync_in_progress") || info.flag("primary_sync_in_progress"),
        last_io_seconds: either_number(info, "master_last_io_seconds_ago", "primary_last_io_seconds_ago"),
        link_down_seconds: either_number(
            info,
            "master_link_down_since_seconds",
            "primary_link_down_since_seconds",
        ),
        offset: either_number(info, "slave_repl_offset", "replica_repl_offset"),
        read_only: info.flag("slave_read_only") || info.flag("replica_read_only"),
    })
}

/// Reads `slave0` / `ip=10.0.0.1,port=6379,state=online,offset=14,lag=0,type=replica`.
fn replica_line(name: &str, value: &str) -> Option<ReplicaLine> {
    let index = name.strip_prefix("slave").or_else(|| name.strip_prefix("replica"))?;
    if index.is_empty() || !index.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let field = |wanted: &str| {
        value
            .split(',')
            .filter_map(|part| part.split_once('='))
            .find(|(key, _)| *key == wanted)
            .map(|(_, v)| v)
    };
    Some(ReplicaLine {
        ip: field("ip")?.to_owned(),
        port: field("port")?.parse().ok()?,
        state: field("state").unwrap_or_default().to_owned(),
        offset: field("offset").and_then(|offset| offset.parse().ok()),
        lag_seconds: field("lag").and_then(|lag| lag.parse().ok()),
    })
}
