//! What is true of directives: the file, CONFIG SET, what cannot be set, and how values come back.

use std::collections::{BTreeMap, BTreeSet};

use valkey::conf::{Directives, equivalent, is_immutable, render};
use valkey::testing::{Release, Server};
use valkey::{Connection, Error};

use crate::support::{connect, open, start};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn reported(connection: &Connection, name: &str) -> String {
    connection.config_get(&[name]).await.expect("should answer").remove(name).expect("should be known")
}

#[tokio::test]
async fn all_directives_or_none_are_set() {
    for release in Release::ALL {
        let server = start(release, "");
        let connection = open(&server).await;
        connection.config_set(&[("maxmemory", "100mb"), ("hz", "20")]).await.expect("should take both");
        let values = connection.config_get(&["maxmemory", "h?"]).await.expect("should answer");
        assert_eq!(values, map(&[("maxmemory", "104857600"), ("hz", "20")]));

        let error =
            connection.config_set(&[("hz", "30"), ("maxmemory", "lots")]).await.expect_err("should refuse");
        assert!(matches!(error, Error::Server { .. }) && !error.is_transient());
        assert!(error.to_string().contains("argument must be a memory value"), "{error}");
        assert_eq!(reported(&connection, "hz").await, "20");
        connection.config_set(&[]).await.expect("should do nothing");
        assert_eq!(connection.config_get(&[]).await.expect("should do nothing"), BTreeMap::new());
    }
}

/// Forms in which people write values: each is set, and what is reported must be recognised.
const FORMS: &[(&str, &str)] = &[
    ("maxmemory", "100mb"),
    ("maxmemory", "1G"),
    ("maxmemory", "0100"),
    ("maxmemory-clients", "5%"),
    ("maxmemory-clients", "10MB"),
    ("repl-backlog-size", "2mb"),
    ("save", "900 1 300 10"),
    ("save", "900 1\n 300  10\n"),
    ("save", ""),
    ("save", "\"\""),
    ("appendfsync", "ALWAYS"),
    ("maxmemory-policy", "AllKeys-LRU"),
    ("activerehashing", "No"),
    ("notify-keyspace-events", "KEA"),
    ("notify-keyspace-events", "Ex"),
    ("notify-keyspace-events", "AKEmn"),
    ("notify-keyspace-events", "Kn"),
    ("notify-keyspace-events", "g$lshzxetdE"),
    ("notify-keyspace-events", ""),
    ("client-output-buffer-limit", "replica 256mb 64mb 60"),
    ("client-output-buffer-limit", "pubsub 1k 1kb 5 normal 0 0 0 slave 1gb 1g 6"),
    ("latency-tracking-info-percentiles", "50.0 99.90"),
    ("latency-tracking-info-percentiles", ""),
    ("oom-score-adj", "relative"),
    ("oom-score-adj-values", "0 0200 +800"),
    ("shutdown-on-sigterm", "now nosave"),
    ("loglevel", "Verbose"),
    ("tls-auth-clients", "OPTIONAL"),
    ("repl-diskless-load", "SwapDB"),
    ("proc-title-template", "{title} {listen-addr} {server-mode} a\"b"),
    ("primaryauth", "with \"quotes\", #hash\nand\u{0}more é"),
    ("masterauth", "old name"),
    ("cluster-announce-hostname", "node-0.valkey"),
    ("bind", "127.0.0.1  -::1"),
    ("list-max-listpack-size", "-2"),
    ("slowlog-log-slower-than", "-1"),
];

#[tokio::test]
async fn a_value_in_the_file_is_the_value_of_config_set() {
    for release in Release::ALL {
        let running = start(release, "");
        let connection = open(&running).await;
        for (name, value) in FORMS {
            let directives = Directives::new(&map(&[(name, value)])).expect("should be valid");
            let (_, value) = directives.iter().next().expect("should hold one");
            connection.config_set(&[(name, value)]).await.unwrap_or_else(|error| panic!("{name}: {error}"));
            let after_set = reported(&connection, name).await;
            assert!(equivalent(name, value, &after_set), "{name}: {value:?} is reported as {after_set:?}");

            let from_file = start(release, &directives.render().expect("should render"));
            let after_start = reported(&connect(from_file.target()).await.expect("in"), name).await;
            assert_eq!(after_start, after_set, "{name}");
        }
    }
}

#[tokio::test]
async fn directives_of_several_words_work_from_the_file() {
    for release in Release::ALL {
        let text = render(&map(&[
            ("rename-command", "FLUSHALL \"\""),
            ("user", "bob on >\"with space\" +ping"),
            ("maxmemory", "1gb"),
        ]));
        let text = text.expect("should render");
        let server = start(release, &text);
        let connection = open(&server).await;
        let error = connection.raw(&["FLUSHALL"]).await.expect_err("should be gone");
        assert!(error.to_string().contains("unknown command"), "{error}");
        let bob = server.target().with_credentials(Some("bob"), "with space".into());
        connect(bob).await.expect("should know bob").ping().await.expect("should answer");
    }
}

/// Values that would be a second directive if they could end their line.
#[tokio::test]
async fn no_value_smuggles_a_directive() {
    for release in Release::ALL {
        for value in [
            "x\nmaxmemory 7",
            "x\"\nmaxmemory 7\n\"",
            "x\r\nmaxmemory 7",
            "x' \n maxmemory 7",
            "\\\nmaxmemory 7",
        ] {
            let text = render(&map(&[("primaryauth", value)])).expect("should render");
            let server = start(release, &text);
            let connection = open(&server).await;
            assert_eq!(reported(&connection, "maxmemory").await, "0");
            assert_eq!(reported(&connection, "primaryauth").await, value);
        }
    }
}

/// The table of what cannot be set is what servers say when each directive is set to what it is.
#[tokio::test]
async fn the_table_of_immutable_directives_is_the_servers() {
    for release in Release::ALL {
        let server = start(release, "");
        let connection = open(&server).await;
        let all = connection.config_get(&["*"]).await.expect("should answer");
        assert!(all.len() > 200, "{}", all.len());
        let (mut found, mut listed) = (BTreeSet::new(), BTreeSet::new());
        for (name, value) in &all {
            if is_immutable(name, release.version()) {
                listed.insert(name.as_str());
            }
            match connection.config_set(&[(name, value)]).await {
                Ok(()) => {}
                Err(Error::Server { message, .. })
                    if message.contains("immutable config") || message.contains("protected config") =>
                {
                    found.insert(name.as_str());
                }
                // A directive of a build option this server lacks.
                Err(error) => assert!(error.to_string().contains("No RDMA"), "{error}"),
            }
        }
        assert_eq!(listed, found);
    }
}

/// Which directives are amounts of memory, by whether the server takes a unit.
#[tokio::test]
async fn amounts_of_memory_are_known_as_such() {
    for release in Release::ALL {
        let server = start(release, "");
        let connection = open(&server).await;
        for (name, value) in connection.config_get(&["*"]).await.expect("should answer") {
            let Ok(bytes) = value.parse::<u64>() else { continue };
            if is_immutable(&name, release.version()) {
                continue;
            }
            let wanted = format!("{bytes}b");
            if connection.config_set(&[(&name, &wanted)]).await.is_ok() {
                let now = reported(&connection, &name).await;
                assert!(equivalent(&name, &wanted, &now), "{name}: {wanted} is reported as {now}");
            }
        }
    }
}

#[test]
fn a_bad_file_ends_the_server_and_its_words_are_kept() {
    for release in Release::ALL {
        let error = Server::start(release, "maxmemory lots").expect_err("should not start").to_string();
        assert!(error.contains("argument must be a memory value"), "{error}");
    }
}
