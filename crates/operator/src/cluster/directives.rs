//! The directives of every server of a cluster: what the operator needs, what it recommends, and what the user wants.

use std::collections::BTreeMap;

use valkey::acl::SystemUser;

use super::paths::{IDENTITY_FILE, SOCKET, TLS_DIRECTORY, USERS_DIRECTORY};
use super::validate::Data;

/// Decided by the operator: with another value it could not run the cluster, or would run it unsafely.
const OWNED: [&str; 43] = [
    "aclfile",
    "availability-zone",
    "bind",
    "cluster-allow-replica-migration",
    "cluster-announce-bus-port",
    "cluster-announce-hostname",
    "cluster-announce-human-nodename",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-announce-tls-port",
    "cluster-config-file",
    "cluster-enabled",
    "cluster-port",
    "daemonize",
    "dir",
    "include",
    "logfile",
    "masterauth",
    "masteruser",
    "pidfile",
    "port",
    "primaryauth",
    "primaryuser",
    "protected-mode",
    "rename-command",
    "replica-announce-ip",
    "replica-announce-port",
    "replicaof",
    "requirepass",
    "sentinel",
    "slave-announce-ip",
    "slave-announce-port",
    "slaveof",
    "supervised",
    "tls-auth-clients",
    "tls-ca-cert-file",
    "tls-cert-file",
    "tls-cluster",
    "tls-key-file",
    "tls-port",
    "unixsocket",
    "unixsocketperm",
    "user",
];

/// Directives for all nodes, and the names of those that the user wrote in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) all: BTreeMap<String, String>,
    pub(super) ignored: Vec<String>,
}

/// Put them together: the user's over the recommended ones, the operator's over all.
pub(super) fn directives(wanted: &BTreeMap<String, String>, data: Data, tls: bool) -> Directives {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut put = |pairs: &[(&str, &str)]| {
        all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    };
    put(&[
        ("cluster-node-timeout", "10000"),
        ("cluster-require-full-coverage", "no"),
        ("cluster-migration-barrier", "1"),
        // Waiting for further replicas before a copy starts would cost every formation and every restart seconds.
        ("repl-diskless-sync-delay", "0"),
    ]);
    match data {
        // A snapshot in the pod would only bring back an old state after a crash.
        Data::Volatile => put(&[("save", ""), ("appendonly", "no")]),
        Data::Kept => put(&[("appendonly", "yes")]),
    }
    let mut ignored = Vec::new();
    for (name, value) in wanted {
        // A server that comes back from its volume without what it acknowledged would take its replica's copy down with it.
        let forgets = data == Data::Kept
            && name.eq_ignore_ascii_case("appendonly")
            && !value.trim().eq_ignore_ascii_case("yes");
        if is_owned(name) || forgets {
            ignored.push(name.clone());
        } else {
            all.insert(name.to_ascii_lowercase(), value.clone());
        }
    }
    let users = format!("{USERS_DIRECTORY}/users.acl");
    let mut put = |pairs: &[(&str, &str)]| {
        all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    };
    put(&[
        ("cluster-enabled", "yes"),
        ("cluster-config-file", IDENTITY_FILE),
        // An emptied primary must stay what it is until the operator decides.
        ("cluster-allow-replica-migration", "no"),
        ("aclfile", &users),
        ("primaryuser", SystemUser::Replication.name()),
        ("unixsocket", SOCKET),
        ("unixsocketperm", "700"),
    ]);
    if tls {
        let file = |name: &str| format!("{TLS_DIRECTORY}/{name}");
        put(&[
            ("port", "0"),
            ("tls-port", "6379"),
            ("tls-cert-file", &file("tls.crt")),
            ("tls-key-file", &file("tls.key")),
            ("tls-ca-cert-file", &file("ca.crt")),
            ("tls-auth-clients", "optional"),
            ("tls-cluster", "yes"),
            ("tls-replication", "yes"),
        ]);
    }
    Directives { all, ignored }
}

/// Whether the operator decides a directive.
pub(super) fn is_owned(name: &str) -> bool {
    OWNED.binary_search(&name.to_ascii_lowercase().as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn with(wanted: &[(&str, &str)]) -> Directives {
        let wanted = wanted.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        directives(&wanted, Data::Volatile, false)
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(OWNED.is_sorted());
    }

    #[test]
    fn users_win_over_recommendations_and_lose_against_what_the_operator_needs() {
        let result = with(&[("Cluster-Node-Timeout", "5000"), ("CLUSTER-ENABLED", "no"), ("port", "1")]);
        assert_eq!(result.all["cluster-node-timeout"], "5000");
        assert_eq!(result.all["cluster-enabled"], "yes");
        assert!(!result.all.contains_key("port"));
        assert_eq!(result.ignored, ["CLUSTER-ENABLED", "port"]);
    }

    #[test]
    fn data_in_the_pod_is_never_saved_and_data_on_a_volume_always() {
        assert_eq!(with(&[]).all["save"], "");
        assert_eq!(directives(&BTreeMap::new(), Data::Kept, false).all["appendonly"], "yes");
        let off = BTreeMap::from([("AppendOnly".to_owned(), "no".to_owned())]);
        let kept = directives(&off, Data::Kept, false);
        assert_eq!((kept.all["appendonly"].as_str(), kept.ignored), ("yes", vec!["AppendOnly".to_owned()]));
    }
}
