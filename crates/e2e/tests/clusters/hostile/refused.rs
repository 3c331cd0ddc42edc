//! Changes of a running cluster that the API server must refuse by itself.

use serde_json::{Value, json};

use super::row::{Refused, refused};
use super::with;

pub(super) fn rows() -> Vec<Refused> {
    [numbers(), types(), directives(), pods(), users(), permissions(), placement()]
        .into_iter()
        .flatten()
        .collect()
}

fn numbers() -> Vec<Refused> {
    vec![
        refused("no shards", json!({"shards": 0}), &["spec.shards", "greater than or equal to 1"]),
        refused("fewer than no shards", json!({"shards": -1}), &["spec.shards"]),
        refused("too many shards", json!({"shards": 501}), &["spec.shards", "less than or equal to 500"]),
        refused("as many shards as a number can hold", json!({"shards": i32::MAX}), &["spec.shards"]),
        refused("more shards than a number can hold", json!({"shards": 1_i64 << 31}), &["spec.shards"]),
        refused("shards as a word", json!({"shards": "three"}), &["spec.shards", "integer"]),
        refused("shards taken away", json!({"shards": null}), &["spec.shards", "Required"]),
        refused("too many replicas", json!({"replicas": 11}), &["spec.replicas", "10"]),
        refused("fewer than no replicas", json!({"replicas": -1}), &["spec.replicas"]),
        refused("half a replica", json!({"replicas": 0.5}), &["spec.replicas", "integer"]),
        refused(
            "a roll that may take nothing",
            json!({"rollingUpdate": {"maxUnavailableShards": 0}}),
            &["rollingUpdate.maxUnavailableShards"],
        ),
        refused(
            "no time to stop",
            json!({"terminationGracePeriodSeconds": 0}),
            &["terminationGracePeriodSeconds"],
        ),
        refused(
            "more than a day to stop",
            json!({"terminationGracePeriodSeconds": 86401}),
            &["terminationGracePeriodSeconds", "86400"],
        ),
    ]
}

fn types() -> Vec<Refused> {
    vec![
        refused("a field nobody knows", json!({"shardz": 3}), &["unknown field", "spec.shardz"]),
        refused(
            "a workload nobody knows",
            json!({"workloadType": "Job"}),
            &["spec.workloadType", "StatefulSet"],
        ),
        refused(
            "another workload",
            json!({"workloadType": "Deployment"}),
            &["workloadType cannot be changed", "create a new cluster"],
        ),
        refused(
            "a budget nobody knows",
            json!({"podDisruptionBudget": {"mode": "Shard"}}),
            &["podDisruptionBudget.mode", "Disabled"],
        ),
        refused("an exporter as a switch", json!({"exporter": true}), &["spec.exporter", "object"]),
        refused("directives as a list", json!({"config": ["maxmemory 1gb"]}), &["spec.config"]),
        refused("users as a map", json!({"users": {"app": {}}}), &["spec.users"]),
        refused("a roll as a word", json!({"rollingUpdate": "fast"}), &["spec.rollingUpdate"]),
        refused("an image of two words", json!({"image": "valkey valkey"}), &["spec.image"]),
        refused("an image without an end", json!({"image": "v".repeat(513)}), &["spec.image", "512"]),
        refused(
            "volumes for a cluster in memory",
            json!({"persistence": {"size": "1Gi"}}),
            &["persistence cannot be added", "create a new cluster"],
        ),
        refused(
            "TLS for servers that speak without",
            json!({"networking": {"tls": {"certificates": {"server": {"secretName": "x"}}}}}),
            &["networking.tls cannot be added", "create a new cluster"],
        ),
        refused("TLS without certificates", json!({"networking": {"tls": {}}}), &["tls.certificates"]),
    ]
}

fn directives() -> Vec<Refused> {
    let of = |config: Value| json!({"config": config});
    let many: serde_json::Map<String, Value> = (0..201).map(|n| (format!("d{n}"), json!("x"))).collect();
    vec![
        refused(
            "a directive that is a number",
            of(json!({"io-threads": 4})),
            &["spec.config.io-threads", "string"],
        ),
        refused("another directive in a name", of(json!({"hz\nport": "1"})), &["spec.config", "name of one"]),
        refused("a value in a name", of(json!({"maxmemory 1gb": ""})), &["spec.config", "name of one"]),
        refused("no name", of(json!({"": "1"})), &["spec.config", "name of one"]),
        refused(
            "another directive in a value",
            of(json!({"save": "900 1\nrequirepass x"})),
            &["spec.config", "save", "one line"],
        ),
        refused(
            "a carriage return",
            of(json!({"save": "900 1\rrequirepass x"})),
            &["spec.config", "save", "one line"],
        ),
        refused("a null", of(json!({"maxmemory-policy": "noeviction\0"})), &["spec.config", "one line"]),
        refused("a value without an end", of(json!({"save": "9 ".repeat(2049)})), &["spec.config", "4096"]),
        refused("room for nobody", of(json!({"MaxClients": "1"})), &["maxclients must be 100 at least"]),
        refused("too many directives", of(json!(many)), &["spec.config", "200"]),
    ]
}

fn pods() -> Vec<Refused> {
    let with = |container: Value| json!({"containers": [container]});
    vec![
        refused(
            "an amount that is none",
            json!({"resources": {"limits": {"memory": "much"}}}),
            &["spec.resources.limits.memory"],
        ),
        refused(
            "less than nothing",
            json!({"resources": {"requests": {"cpu": "-1"}}}),
            &["spec.resources.requests.cpu"],
        ),
        refused("amounts as a list", json!({"resources": {"requests": ["1"]}}), &["spec.resources.requests"]),
        refused(
            "an amount that is none for the exporter",
            json!({"exporter": {"enabled": false, "resources": {"limits": {"cpu": "1.2.3"}}}}),
            &["exporter.resources.limits.cpu"],
        ),
        refused(
            "a container without a name",
            with(json!({"image": "x"})),
            &["spec.containers[0].name", "Required"],
        ),
        refused(
            "one container twice",
            json!({"containers": [{"name": "valkey"}, {"name": "valkey"}]}),
            &["spec.containers[1]", "Duplicate"],
        ),
        refused(
            "one container by two names",
            json!({"containers": [{"name": "valkey"}, {"name": "server"}]}),
            &["the same container", "merge them"],
        ),
        refused(
            "the operator's own container",
            with(json!({"name": "valkey-init", "image": "x"})),
            &["valkey-init", "give yours another name"],
        ),
        refused(
            "a mistyped container",
            with(json!({"name": "valkye"})),
            &["needs an image", "metrics-exporter"],
        ),
        refused(
            "a name no container can have",
            with(json!({"name": "My_Sidecar", "image": "x"})),
            &["spec.containers[0].name"],
        ),
        refused(
            "another program instead of the server",
            with(json!({"name": "server", "command": ["sleep", "infinity"]})),
            &["cannot replace the command", "config"],
        ),
        refused(
            "variables as a word",
            with(json!({"name": "valkey", "env": "TZ=UTC"})),
            &["spec.containers[0].env"],
        ),
        refused(
            "an overlay of the wrong type",
            json!({"podTemplate": {"spec": {"containers": "all"}}}),
            &["podTemplate.spec.containers"],
        ),
    ]
}

/// One user called `app` with these fields.
fn app(fields: &Value) -> Value {
    json!({"users": [with(json!({"name": "app"}), fields)]})
}

fn users() -> Vec<Refused> {
    vec![
        refused(
            "a system user",
            app(&json!({"name": "_operator"})),
            &["users[0].name", "reserved for system users"],
        ),
        refused(
            "one user twice",
            json!({"users": [{"name": "a"}, {"name": "a"}]}),
            &["spec.users[1]", "Duplicate"],
        ),
        refused("a user without a name", app(&json!({"name": ""})), &["users[0].name"]),
        refused(
            "a name of two words",
            app(&json!({"name": "a b"})),
            &["users[0].name", "cannot contain spaces"],
        ),
        refused(
            "another user in a name",
            app(&json!({"name": "a\nuser b on nopass"})),
            &["users[0].name", "cannot contain spaces"],
        ),
        refused(
            "any password and one of a Secret",
            app(&json!({"nopass": true, "passwordSecret": {"name": "x"}})),
            &["nopass and passwordSecret exclude each other"],
        ),
        refused(
            "a password instead of a Secret",
            app(&json!({"passwordSecret": "x"})),
            &["users[0].passwordSecret"],
        ),
        refused(
            "a name that no Secret has",
            app(&json!({"passwordSecret": {"name": "a,metadata.name!=b"}})),
            &["users[0].passwordSecret.name"],
        ),
        refused(
            "a key that no Secret has",
            app(&json!({"passwordSecret": {"keys": ["../app"]}})),
            &["users[0].passwordSecret.keys[0]"],
        ),
    ]
}

fn permissions() -> Vec<Refused> {
    let may = |permissions: &str| app(&json!({"permissions": permissions}));
    vec![
        refused(
            "a password in clear",
            may("+@all >plainpassword"),
            &["users[0].permissions", "passwordSecret"],
        ),
        refused("a bad hash", may("+@all #0123"), &["users[0].permissions", "passwordSecret"]),
        refused(
            "a selector without an end",
            may("+ping (+get ~*"),
            &["users[0].permissions", "write ) at its end"],
        ),
        refused(
            "a word that undoes the others",
            may("+get reset"),
            &["users[0].permissions", "leave it out"],
        ),
        refused(
            "another user among permissions",
            may("+get\nuser b on nopass"),
            &["users[0].permissions", "one line"],
        ),
        refused(
            "a sign before a command",
            app(&json!({"commands": {"allow": ["+get"]}})),
            &["commands.allow", "without +"],
        ),
        refused(
            "a rule as a key",
            app(&json!({"keys": {"readOnly": ["* +@all"]}})),
            &["keys.readOnly", "write ?"],
        ),
        refused(
            "a line as a channel",
            app(&json!({"channels": {"patterns": ["a\n"]}})),
            &["channels.patterns", "write ?"],
        ),
    ]
}

fn placement() -> Vec<Refused> {
    let of = |scheduling: Value| json!({"scheduling": scheduling});
    let pinned = |zones: Value| of(json!({"zone": {"pinning": {"zones": zones}}}));
    vec![
        refused("a zone twice", pinned(json!(["a", "a"])), &["pinning.zones", "must differ"]),
        refused("no zone", pinned(json!([])), &["pinning.zones"]),
        refused("a zone that is no label", pinned(json!(["eu 1"])), &["pinning.zones[0]"]),
        refused(
            "pinned and spread",
            of(json!({"zone": {"pinning": {"zones": ["a"]}, "spread": {"pods": {"mode": "Required"}}}})),
            &["scheduling.zone", "zone.pinning goes without zone.spread"],
        ),
        refused(
            "a spread nobody knows",
            of(json!({"node": {"spread": {"shard": {"mode": "Always"}}}})),
            &["node.spread.shard.mode", "Preferred"],
        ),
        refused("tolerations as a word", of(json!({"tolerations": "all"})), &["scheduling.tolerations"]),
        refused("affinity as a word", of(json!({"affinity": "near"})), &["scheduling.affinity"]),
    ]
}

/// For a cluster with volumes of 64Mi.
pub(super) fn of_volumes() -> Vec<Refused> {
    let of = |persistence: Value| json!({"persistence": persistence});
    vec![
        refused("a smaller volume", of(json!({"size": "32Mi"})), &["spec.persistence", "size can only grow"]),
        refused("a volume of no size", of(json!({"size": "big"})), &["persistence.size", "for example 10Gi"]),
        refused("a volume of less than nothing", of(json!({"size": "-1Gi"})), &["persistence.size"]),
        refused(
            "another class",
            of(json!({"storageClassName": "x"})),
            &["storageClassName cannot be changed"],
        ),
        refused(
            "volumes taken away",
            json!({"persistence": null}),
            &["persistence cannot be added to or removed"],
        ),
        refused(
            "no volumes any more",
            of(json!({"mode": "disabled", "size": null})),
            &["mode cannot be changed"],
        ),
        refused(
            "somebody else's volumes",
            of(json!({"existingClaim": "x"})),
            &["existingClaim goes with mode: external"],
        ),
        refused(
            "a policy nobody knows",
            of(json!({"reclaimPolicy": "Recycle"})),
            &["persistence.reclaimPolicy", "Retain"],
        ),
    ]
}

/// New clusters that cannot be: name, more of the spec, words.
pub(super) fn creations() -> Vec<(String, Value, &'static [&'static str])> {
    let tls = json!({"networking": {"tls": {"certificates": {"server": {"secretName": "Not A Secret"}}}}});
    vec![
        ("c".repeat(39), json!({}), &["38 characters at most"]),
        ("a.b".to_owned(), json!({}), &["cannot contain a dot"]),
        ("Upper".to_owned(), json!({}), &["metadata.name", "lower case"]),
        ("tls".to_owned(), tls, &["certificates.server.secretName"]),
        (
            "claims".to_owned(),
            json!({"persistence": {"mode": "external"}}),
            &["existingClaim goes with mode: external"],
        ),
        (
            "size".to_owned(),
            json!({"persistence": {"mode": "enabled"}}),
            &["size is required", "for example size: 10Gi"],
        ),
    ]
}
