//! What a running server can change, and what waits for its next start.

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
}
