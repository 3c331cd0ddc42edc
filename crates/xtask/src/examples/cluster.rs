//! Examples of the kind `ValkeyCluster`.

use api::cluster::{
    Exporter, NodeScheduling, PasswordSecret, RollingUpdate, Scheduling, Spread, SpreadMode, SpreadRule,
    User, UserChannels, UserCommands, UserKeys, ZoneScheduling,
};
use api::node::{Persistence, ReclaimPolicy};
use api::{ValkeyClusterSpec, names};
use serde_json::{Value, json};

use super::{IMAGE, dedicated_machines, example, requests_and_memory_limit, texts};
use crate::output::Generated;

pub(super) fn files() -> Vec<Generated> {
    vec![
        example(
            "valkeycluster",
            "The smallest ValkeyCluster that survives the loss of a machine: three shards, each with a replica.",
            &[manifest(
                "cluster",
                &ValkeyClusterSpec { shards: 3, replicas: 1, ..ValkeyClusterSpec::default() },
            )],
        ),
        example(
            "valkeycluster-full",
            "A ValkeyCluster with most of what it can be told, and the passwords of its users.",
            &[passwords("full"), manifest("full", &full())],
        ),
    ]
}

fn manifest(name: &str, spec: &ValkeyClusterSpec) -> Value {
    super::manifest("ValkeyCluster", name, spec)
}

/// A password in clear and the SHA-256 of one (of `change-me` again).
fn passwords(cluster: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": names::users_secret(cluster)},
        "stringData": {
            "app": "change-me",
            "reader-hash": "#e2186dbdb1bb4193608605e84f33208765b5693b55edd4f730a719a100eeea6f",
        },
    })
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn users() -> Vec<User> {
    vec![
        User {
            name: "app".to_owned(),
            password_secret: Some(PasswordSecret::default()),
            commands: Some(UserCommands { allow: list(&["@all"]), deny: list(&["@dangerous"]) }),
            keys: Some(UserKeys { read_write: list(&["app:*"]), ..UserKeys::default() }),
            channels: Some(UserChannels { patterns: list(&["app:*"]) }),
            ..User::default()
        },
        User {
            name: "reader".to_owned(),
            password_secret: Some(PasswordSecret { keys: list(&["reader-hash"]), name: None }),
            permissions: Some("+@read +@connection %R~app:*".to_owned()),
            ..User::default()
        },
    ]
}

fn placement() -> Scheduling {
    let spread = |mode: SpreadMode| Some(Spread { shard: Some(SpreadRule { mode }), ..Spread::default() });
    Scheduling {
        node_selector: texts(&[("kubernetes.io/os", "linux")]),
        tolerations: vec![dedicated_machines()],
        node: Some(NodeScheduling { spread: spread(SpreadMode::Required) }),
        zone: Some(ZoneScheduling { spread: spread(SpreadMode::Preferred), ..ZoneScheduling::default() }),
        ..Scheduling::default()
    }
}

fn full() -> ValkeyClusterSpec {
    ValkeyClusterSpec {
        image: Some(IMAGE.to_owned()),
        shards: 3,
        replicas: 1,
        resources: Some(requests_and_memory_limit("100m", "256Mi")),
        scheduling: Some(placement()),
        exporter: Some(Exporter {
            resources: Some(requests_and_memory_limit("10m", "32Mi")),
            ..Exporter::default()
        }),
        persistence: Some(Persistence {
            size: Some("1Gi".to_owned()),
            reclaim_policy: Some(ReclaimPolicy::Retain),
            ..Persistence::default()
        }),
        users: users(),
        containers: vec![json!({"name": "valkey", "env": [{"name": "TZ", "value": "UTC"}]})],
        config: texts(&[("maxmemory", "192mb"), ("maxmemory-policy", "allkeys-lru"), ("appendonly", "yes")]),
        termination_grace_period_seconds: Some(60),
        rolling_update: Some(RollingUpdate { max_unavailable_shards: Some(2) }),
        pod_template: serde_json::from_value(
            json!({"metadata": {"annotations": {"example.com/team": "platform"}}}),
        )
        .ok(),
        ..ValkeyClusterSpec::default()
    }
}
