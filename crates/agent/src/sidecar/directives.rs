//! Which directives the operator may have us set. Whoever can have any directive set can have the server write files wherever it may,
//! listen elsewhere, let in whom it wants or follow a server of theirs; so there are some that nobody sets from outside of the pod,
//! although our user on the server could. Pure.
//!
//! What is left is what the operator decides while servers run, and everything that the spec of a cluster may hold: new releases and
//! modules bring directives that nobody knows here. What a server takes at its start only, it refuses by itself.

use proto::agent::{Directive, MOST_DIRECTIVES};
use snafu::{Snafu, ensure};

/// No directive has a longer name, in bytes.
const LONGEST_NAME: usize = 128;

/// Those that are not set, by what they decide. Servers know some of them at their start only, and the rest by a setting of theirs; we
/// do not depend on it.
const NOT_SET: [&[&str]; 4] = [
    // What the server reads, writes and runs.
    &[
        "aclfile",
        "appenddirname",
        "appendfilename",
        "cluster-config-file",
        "daemonize",
        "dbfilename",
        "dir",
        "include",
        "loadmodule",
        "logfile",
        "pidfile",
        "supervised",
    ],
    // What its users can do that they otherwise cannot.
    &[
        "enable-debug-command",
        "enable-module-command",
        "enable-protected-configs",
        "rename-command",
        "requirepass",
        "user",
    ],
    // Where it listens, and how it knows who somebody is.
    &[
        "bind",
        "cluster-port",
        "port",
        "protected-mode",
        "rdma-bind",
        "rdma-port",
        "tls-auth-clients",
        "tls-ca-cert-dir",
        "tls-ca-cert-file",
        "tls-cert-file",
        "tls-key-file",
        "tls-port",
        "unixsocket",
        "unixsocketgroup",
        "unixsocketperm",
    ],
    // Who it is in its cluster, and whom it follows.
    &[
        "cluster-announce-bus-port",
        "cluster-announce-ip",
        "cluster-announce-port",
        "cluster-announce-tls-port",
        "cluster-enabled",
        "replica-announce-ip",
        "replica-announce-port",
        "replicaof",
        "sentinel",
        "slave-announce-ip",
        "slave-announce-port",
        "slaveof",
    ],
];

/// Why directives are not set. A name that may be anything is cut: it stands in our log.
#[derive(Debug, Clone, PartialEq, Eq, Snafu)]
pub(super) enum NotAllowed {
    /// There are more than a server has.
    #[snafu(display("{count} directives are more than {MOST_DIRECTIVES}"))]
    TooMany {
        /// How many.
        count: usize,
    },
    /// No directive has such a name.
    #[snafu(display("{name:?} is not the name of a directive"))]
    Name {
        /// What was given, cut.
        name: String,
    },
    /// It is one of those that are not set.
    #[snafu(display("the directive {name} is not set from outside of the pod"))]
    NotSet {
        /// Which.
        name: String,
    },
}

/// Names and values, if all of them may be set.
pub(super) fn allowed(directives: &[Directive]) -> Result<Vec<(&str, &str)>, NotAllowed> {
    let count = directives.len();
    ensure!(count <= MOST_DIRECTIVES, TooManySnafu { count });
    directives
        .iter()
        .map(|Directive { name, value }| {
            ensure!(is_name(name), NameSnafu { name: cut(name) });
            ensure!(!is_not_set(name), NotSetSnafu { name });
            Ok((name.as_str(), value.as_str()))
        })
        .collect()
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_part)
}

/// Servers do not care how a name is spelled.
fn is_not_set(name: &str) -> bool {
    NOT_SET.iter().copied().flatten().any(|known| name.eq_ignore_ascii_case(known))
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directive(name: &str) -> Directive {
        Directive { name: name.to_owned(), value: "hunter2".to_owned() }
    }

    fn verdict(name: &str) -> Result<(), NotAllowed> {
        allowed(&[directive("hz"), directive(name)]).map(drop)
    }

    #[test]
    fn what_the_operator_and_specs_set_is_set() {
        for name in [
            "primaryauth",
            "primaryuser",
            "availability-zone",
            "cluster-node-timeout",
            "cluster-allow-replica-migration",
            "cluster-announce-hostname",
            "cluster-announce-human-nodename",
            "appendonly",
            "save",
            "MaxMemory",
            "tls-protocols",
            "min-replicas-to-write",
            "json.max-path-limit",
            "a-directive-of-the-future",
        ] {
            assert_eq!(verdict(name), Ok(()), "{name}");
        }
        assert_eq!(allowed(&[]), Ok(Vec::new()));
    }

    #[test]
    fn what_would_hand_over_the_server_is_not() {
        for name in NOT_SET.iter().copied().flatten() {
            for spelled in [(*name).to_owned(), name.to_ascii_uppercase()] {
                let expected = NotAllowed::NotSet { name: spelled.clone() };
                assert_eq!(verdict(&spelled), Err(expected), "{spelled}");
            }
        }
        assert!(NOT_SET.iter().all(|names| names.is_sorted()));
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        for name in ["", " dir", "dir ", "di\0r", "dir\r\nport", "d*", "größe", &"x".repeat(129)] {
            assert_eq!(verdict(name), Err(NotAllowed::Name { name: cut(name) }), "{name:?}");
        }
    }

    #[test]
    fn there_are_never_more_than_a_server_could_have() {
        let many = vec![directive("hz"); MOST_DIRECTIVES + 1];
        assert_eq!(allowed(&many[1..]).map(|all| all.len()), Ok(MOST_DIRECTIVES));
        assert_eq!(allowed(&many), Err(NotAllowed::TooMany { count: MOST_DIRECTIVES + 1 }));
    }

    #[test]
    fn why_something_is_not_set_says_no_value() {
        let words = allowed(&[directive("hz"), directive("dir")]).expect_err("should not be set").to_string();
        assert_eq!(words, "the directive dir is not set from outside of the pod");
    }
}
