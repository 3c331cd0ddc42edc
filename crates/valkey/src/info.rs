//! What INFO says, read so that no answer of a server can surprise us.
//!
//! A field that is missing or cannot be read is `None` (or the harmless value its documentation names); a field that is
//! new is kept as text. Nothing here fails.

mod replication;

use std::collections::BTreeMap;

pub use replication::{PrimaryLink, ReplicaLine, Replication, ReplicationRole};

use crate::Version;

/// The fields of an INFO reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    fields: BTreeMap<String, String>,
}

/// Who the server is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Server {
    /// The real version: `valkey_version`. Valkey keeps `redis_version` at 7.2.4 for old clients, so it counts only
    /// where there is no other (before Valkey 8.0).
    pub version: Option<Version>,
    /// Whether the server calls itself Valkey.
    pub is_valkey: bool,
    /// Changes with every start of the process.
    pub run_id: Option<String>,
    /// The port clients reach, of whichever of TLS and plain is on.
    pub tcp_port: Option<u16>,
    /// Seconds since the start of the process.
    pub uptime_seconds: Option<u64>,
    /// The process, in the server's own PID namespace.
    pub process_id: Option<u32>,
    /// Where it was told to be; empty if nowhere. Only servers that can be told (8.1 and later) say it.
    pub availability_zone: Option<String>,
}

/// How writing to disk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "five independent facts, as the server reports them")]
pub struct Persistence {
    /// The server reads its data from disk and refuses most commands.
    pub loading: bool,
    /// The last background save worked, or none was tried.
    pub rdb_last_save_ok: bool,
    /// Append-only file is on.
    pub aof_enabled: bool,
    /// The last rewrite of the append-only file worked, or none was tried.
    pub aof_last_rewrite_ok: bool,
    /// The last write to the append-only file worked; if not, the server refuses writes.
    pub aof_last_write_ok: bool,
}

impl Info {
    /// Reads the text of a reply. Lines end in CRLF or LF; headings and lines without a colon are skipped.
    pub fn parse(text: &str) -> Self {
        let fields = text
            .split('\n')
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self { fields }
    }

    /// A field as the server wrote it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// A number; `None` where it is missing or does not fit.
    pub fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.get(name)?.trim().parse().ok()
    }

    /// Whether a 0/1 field is set; a missing one is not.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.trim() == "1")
    }

    /// Every field, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The section `server`.
    pub fn server(&self) -> Server {
        let own_version = self.get("valkey_version");
        Server {
            version: own_version.or_else(|| self.get("redis_version")).and_then(Version::parse),
            is_valkey: own_version.is_some() || self.get("server_name") == Some("valkey"),
            run_id: self.get("run_id").map(str::to_owned),
            tcp_port: self.number("tcp_port"),
            uptime_seconds: self.number("uptime_in_seconds"),
            process_id: self.number("process_id"),
            availability_zone: self.get("availability_zone").map(str::to_owned),
        }
    }

    /// The section `replication`; `None` where the role is missing or unknown.
    pub fn replication(&self) -> Option<Replication> {
        Replication::read(self)
    }

    /// The section `persistence`.
    pub fn persistence(&self) -> Persistence {
        let ok = |name| self.get(name).is_none_or(|status| status.trim() == "ok");
        Persistence {
            loading: self.loading(),
            rdb_last_save_ok: ok("rdb_last_bgsave_status"),
            aof_enabled: self.flag("aof_enabled"),
            aof_last_rewrite_ok: ok("aof_last_bgrewrite_status"),
            aof_last_write_ok: ok("aof_last_write_status"),
        }
    }

    /// The server reads its data from disk and refuses most commands.
    pub fn loading(&self) -> bool {
        self.flag("loading")
    }

    /// The server runs in cluster mode.
    pub fn cluster_enabled(&self) -> bool {
        self.flag("cluster_enabled")
    }

    /// Bytes of data and buffers in use.
    pub fn used_memory(&self) -> Option<u64> {
        self.number("used_memory")
    }
}

#[cfg(test)]
mod tests;
