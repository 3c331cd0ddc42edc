//! Whether a wanted value is the one the server reports, which it reports in a form of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::is_secret;
use super::memory::parse_memory;

/// Amounts of memory: reported in bytes.
const MEMORY: [&str; 15] = [
    "active-defrag-ignore-bytes",
    "auto-aof-rewrite-min-size",
    "client-query-buffer-limit",
    "cluster-link-sendbuf-limit",
    "hash-max-listpack-value",
    "hash-max-ziplist-value",
    "hll-sparse-max-bytes",
    "maxmemory",
    "maxmemory-clients",
    "proto-max-bulk-len",
    "repl-backlog-size",
    "slot-migration-max-failover-repl-bytes",
    "stream-node-max-bytes",
    "zset-max-listpack-value",
    "zset-max-ziplist-value",
];

/// Words out of a fixed list: taken in any case, reported in one.
const WORDS: [&str; 20] = [
    "acl-pubsub-default",
    "appendfsync",
    "cluster-config-save-behavior",
    "cluster-preferred-endpoint-type",
    "enable-debug-command",
    "enable-module-command",
    "enable-protected-configs",
    "log-format",
    "log-timestamp-format",
    "loglevel",
    "maxmemory-policy",
    "oom-score-adj",
    "propagation-error-behavior",
    "rdb-version-check",
    "repl-diskless-load",
    "sanitize-dump-payload",
    "supervised",
    "syslog-facility",
    "tls-auth-clients",
    "tls-auth-clients-user",
];

/// Whether the value is a list of words, in which the amount of space between them means nothing.
pub(super) fn is_list(name: &str) -> bool {
    matches!(
        name,
        "bind"
            | "client-output-buffer-limit"
            | "latency-tracking-info-percentiles"
            | "oom-score-adj-values"
            | "replicaof"
            | "save"
            | "shutdown-on-sigint"
            | "shutdown-on-sigterm"
            | "slaveof"
    )
}

/// Whether CONFIG SET of the wanted value would change nothing about the reported one.
///
/// `true` is certain. `false` may be a form of writing this function does not know: see the page of the module for why
/// that costs one CONFIG SET and no more.
pub fn equivalent(name: &str, wanted: &str, reported: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    if wanted == reported {
        return true;
    }
    if is_secret(name) {
        return false;
    }
    match name {
        "client-output-buffer-limit" => buffer_limits_agree(wanted, reported),
        "notify-keyspace-events" => events(wanted) == events(reported),
        "latency-tracking-info-percentiles" | "oom-score-adj-values" => numbers_agree(wanted, reported),
        "shutdown-on-sigint" | "shutdown-on-sigterm" => word_set(wanted) == word_set(reported),
        // Two names of one mode.
        "oom-score-adj" if wanted.eq_ignore_ascii_case("relative") => reported == "yes",
        "replicaof" | "slaveof" if wanted.eq_ignore_ascii_case("no one") => reported.is_empty(),
        "unixsocketperm" => {
            let octal = |text| u32::from_str_radix(text, 8).ok();
            octal(wanted).is_some() && octal(wanted) == octal(reported)
        }
        _ if is_list(name) => wanted.split_ascii_whitespace().eq(reported.split_ascii_whitespace()),
        _ if MEMORY.contains(&name) => {
            parse_memory(wanted).is_some_and(|bytes| Some(bytes) == parse_memory(reported))
        }
        _ if WORDS.contains(&name) || matches!(reported, "yes" | "no") => {
            wanted.eq_ignore_ascii_case(reported)
        }
        _ => false,
    }
}

fn numbers_agree(wanted: &str, reported: &str) -> bool {
    let numbers =
        |text: &str| text.split_ascii_whitespace().map(str::parse::<f64>).collect::<Result<Vec<_>, _>>();
    // Both sides print the same few decimals; a difference beyond them is a difference.
    matches!((numbers(wanted), numbers(reported)), (Ok(wanted), Ok(reported)) if wanted == reported)
}

fn word_set(text: &str) -> BTreeSet<String> {
    text.split_ascii_whitespace().map(str::to_ascii_lowercase).collect()
}

/// `A` stands for all classes but `m` and `n`; the server reports the letters in an order of its own, and says nothing
/// of `n` once it says `A`.
fn events(letters: &str) -> BTreeSet<char> {
    const ALL: &str = "g$lshzxetd";
    let mut events: BTreeSet<char> = letters.chars().collect();
    if events.remove(&'A') {
        events.extend(ALL.chars());
    }
    if ALL.chars().all(|class| events.contains(&class)) {
        events.remove(&'n');
    }
    events
}

/// Classes that are not wanted keep what they have, so that only the wanted ones count.
fn buffer_limits_agree(wanted: &str, reported: &str) -> bool {
    match (buffer_limits(wanted), buffer_limits(reported)) {
        (Some(wanted), Some(reported)) => {
            wanted.iter().all(|(class, limits)| reported.get(class) == Some(limits))
        }
        _ => false,
    }
}

type Limits = (u64, u64, u64);

fn buffer_limits(text: &str) -> Option<BTreeMap<String, Limits>> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let class = |chunk: &[&str]| match chunk {
        [class, hard, soft, seconds] => {
            let class = class.to_ascii_lowercase();
            let class = if class == "slave" { "replica".to_owned() } else { class };
            Some((class, (parse_memory(hard)?, parse_memory(soft)?, seconds.parse().ok()?)))
        }
        _ => None,
    };
    words.chunks(4).map(class).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUFFERS: &str = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";

    #[test]
    fn forms_of_one_value_agree() {
        for (name, wanted, reported) in [
            ("maxmemory", "100mb", "104857600"),
            ("MaxMemory", "1G", "1000000000"),
            ("maxmemory-clients", "5%", "5%"),
            ("appendonly", "YES", "yes"),
            ("maxmemory-policy", "AllKeys-LRU", "allkeys-lru"),
            ("save", "900 1  300 10", "900 1 300 10"),
            ("save", "", ""),
            ("notify-keyspace-events", "KEA", "AKE"),
            ("notify-keyspace-events", "Kg$lshzxetdnm", "AKm"),
            ("notify-keyspace-events", "Ex", "xE"),
            ("client-output-buffer-limit", "replica 256mb 64mb 60", BUFFERS),
            ("client-output-buffer-limit", "pubsub 32mb 8mb 60 NORMAL 0 0 0", BUFFERS),
            ("latency-tracking-info-percentiles", "50.0 99.90", "50 99.9"),
            ("oom-score-adj-values", "0 0200 +800", "0 200 800"),
            ("oom-score-adj", "relative", "yes"),
            ("shutdown-on-sigterm", "now nosave", "nosave now"),
            ("unixsocketperm", "0700", "700"),
            ("replicaof", "no one", ""),
        ] {
            assert!(equivalent(name, wanted, reported), "{name}: {wanted:?} is {reported:?}");
        }
    }

    #[test]
    fn other_values_differ() {
        for (name, wanted, reported) in [
            ("maxmemory", "100m", "104857600"),
            ("maxmemory", "nonsense", "0"),
            ("save", "900 1", "900 1 300 10"),
            ("save", "300 10 900 1", "900 1 300 10"),
            ("notify-keyspace-events", "KE", "AKE"),
            ("client-output-buffer-limit", "replica 256mb 64mb 61", BUFFERS),
            ("client-output-buffer-limit", "replica 256mb 64mb", BUFFERS),
            ("dir", "/Data", "/data"),
            ("requirepass", "1k", "1000"),
            ("requirepass", "YES", "yes"),
            ("appendonly", "no", "yes"),
            ("tls-protocols", "tlsv1.2", "TLSv1.2"),
        ] {
            assert!(!equivalent(name, wanted, reported), "{name}: {wanted:?} is not {reported:?}");
        }
    }

    proptest! {
        #[test]
        fn any_values_are_survived(index in 0..4_usize, wanted in ".*", reported in ".*") {
            let names = ["client-output-buffer-limit", "notify-keyspace-events", "maxmemory", "save"];
            let _ = equivalent(names[index], &wanted, &reported);
            prop_assert!(equivalent(names[index], &wanted, &wanted));
        }
    }
}
