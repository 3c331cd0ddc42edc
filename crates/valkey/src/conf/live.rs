//! What a running server can change, and what waits for its next start.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256};

use super::directives::Directives;
use super::equivalent::equivalent;
use super::shown;
use crate::Version;

/// Directives of the file that CONFIG GET and CONFIG SET do not know. Their values are several words of a line.
const FILE_ONLY: [&str; 5] = ["include", "loadmodule", "rename-command", "sentinel", "user"];

/// What servers refuse to CONFIG SET, as found by trying it on 8.1 and 9.1. A name a server does not know is harmless
/// here. Kept sorted.
const IMMUTABLE: [&str; 44] = [
    "aclfile",
    "always-show-logo",
    "aof-rewrite-cpulist",
    "aof_rewrite_cpulist",
    "appenddirname",
    "appendfilename",
    "bgsave-cpulist",
    "bgsave_cpulist",
    "bio-cpulist",
    "bio_cpulist",
    "cluster-config-file",
    "cluster-databases",
    "cluster-enabled",
    "cluster-port",
    "daemonize",
    "databases",
    // The next and `dir` are "protected": only `enable-protected-configs` opens them, which itself takes a restart.
    "dbfilename",
    "dir",
    "disable-thp",
    "enable-debug-command",
    "enable-module-command",
    "enable-protected-configs",
    "hash-seed",
    "logfile",
    "mptcp",
    "pidfile",
    "rdbchecksum",
    "rdma-completion-vector",
    "rdma-rx-size",
    "repl-mptcp",
    "replicaof",
    "server-cpulist",
    "server_cpulist",
    "set-proc-title",
    "slaveof",
    "socket-mark-id",
    "supervised",
    "syslog-enabled",
    "syslog-facility",
    "syslog-ident",
    "tcp-backlog",
    "unixsocket",
    "unixsocketgroup",
    "unixsocketperm",
];

/// Whether a directive only counts in the file.
pub fn is_file_only(name: &str) -> bool {
    FILE_ONLY.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether a server of this version takes the directive at its start only.
pub fn is_immutable(name: &str, version: Version) -> bool {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        // Became changeable with 9.0.
        "io-threads" => version < Version::new(9, 0, 0),
        name => is_file_only(name) || IMMUTABLE.binary_search(&name).is_ok(),
    }
}

/// The difference between what is wanted and what runs. `Debug` shows no secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// To be set now, all in one command.
    pub set: Vec<(String, String)>,
    /// Counts from the next start on.
    pub restart: Vec<String>,
    /// Not reported by the server: only in the file, or unknown to it. Nothing can be told by asking.
    pub unreported: Vec<String>,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set: Vec<_> = self.set.iter().map(|(name, value)| (name, shown(name, value))).collect();
        f.debug_struct("Pending")
            .field("set", &set)
            .field("restart", &self.restart)
            .field("unreported", &self.unreported)
            .finish()
    }
}

impl Pending {
    /// A name for exactly what is to be set; see the page of this module for its use.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for part in self.set.iter().flat_map(|(name, value)| [name, value]) {
            // The length keeps "ab","c" apart from "a","bc".
            hash.update(part.len().to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
    }
}

impl Directives {
    /// Compares with what CONFIG GET reports.
    pub fn pending(&self, version: Version, reported: &BTreeMap<String, String>) -> Pending {
        let mut pending = Pending::default();
        for (name, wanted) in self.iter() {
            match reported.get(name) {
                None => pending.unreported.push(name.to_owned()),
                Some(reported) if equivalent(name, wanted, reported) => {}
                Some(_) if is_immutable(name, version) => pending.restart.push(name.to_owned()),
                Some(_) => pending.set.push((name.to_owned(), wanted.to_owned())),
            }
        }
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V8_1: Version = Version::new(8, 1, 0);
    const V9_1: Version = Version::new(9, 1, 0);

    #[test]
    fn the_table_is_sorted() {
        assert!(IMMUTABLE.is_sorted());
    }

    #[test]
    fn versions_differ() {
        assert!(is_immutable("io-threads", V8_1) && !is_immutable("io-threads", V9_1));
        assert!(is_immutable("Cluster-Enabled", V9_1) && is_immutable("rename-command", V9_1));
        assert!(!is_immutable("maxmemory", V8_1));
    }

    #[test]
    fn differences_are_sorted_by_what_can_be_done() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let wanted = map(&[
            ("maxmemory", "100mb"),
            ("hz", "20"),
            ("databases", "4"),
            ("cluster-enabled", "YES"),
            ("search.threads", "2"),
        ]);
        let reported =
            map(&[("maxmemory", "104857600"), ("hz", "10"), ("databases", "16"), ("cluster-enabled", "yes")]);
        let pending = Directives::new(&wanted).expect("should be valid").pending(V9_1, &reported);
        assert_eq!(pending.set, [("hz".to_owned(), "20".to_owned())]);
        assert_eq!(pending.restart, ["databases"]);
        assert_eq!(pending.unreported, ["search.threads"]);
    }

    #[test]
    fn debug_shows_no_secret() {
        let wanted = BTreeMap::from([("RequirePass".to_owned(), "hush".to_owned())]);
        let directives = Directives::new(&wanted).expect("should be valid");
        let reported = BTreeMap::from([("requirepass".to_owned(), String::new())]);
        let pending = directives.pending(V9_1, &reported);
        let text = format!("{directives:?}{pending:?}");
        assert!(text.contains("requirepass") && !text.contains("hush"), "{text}");
    }

    #[test]
    fn fingerprints_tell_sets_apart() {
        let of = |pairs: &[(&str, &str)]| {
            let set = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Pending { set, ..Pending::default() }.fingerprint()
        };
        assert_eq!(of(&[("hz", "20")]), of(&[("hz", "20")]));
        assert_ne!(of(&[("hz", "20")]), of(&[("hz2", "0")]));
        assert_ne!(of(&[]), of(&[("hz", "20")]));
    }
}
