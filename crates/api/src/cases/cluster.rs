//! Rows for `ValkeyCluster` beside those about placement and users.

use serde_json::{Value, json};

use super::{Case, Rows, shared};
use crate::names::CLUSTER_NAME_MAX;

pub(super) fn rows() -> Rows {
    Rows { kind: "ValkeyCluster", smallest: json!({"shards": 3}) }
}

pub(super) fn cases() -> Vec<Case> {
    let rows = rows();
    [
        sizes(&rows),
        images(&rows),
        containers(&rows),
        pods(&rows),
        networking(&rows),
        storage(&rows),
        shared::persistence(&rows),
        shared::persistence_updates(&rows),
        shared::directives(&rows),
        configs(&rows),
        updates(&rows),
        names(&rows),
    ]
    .concat()
}

fn sizes(rows: &Rows) -> Vec<Case> {
    vec![
        rows.create("minimal", &json!({}), None),
        rows.create("a single shard with replicas", &json!({"shards": 1, "replicas": 2}), None),
        rows.create("the largest", &json!({"shards": 500, "replicas": 10}), None),
        rows.create("no shards", &json!({"shards": 0}), Some("spec.shards")),
        rows.create("shards not given", &json!({"shards": null}), Some("spec.shards")),
        rows.create("too many shards", &json!({"shards": 501}), Some("spec.shards")),
        rows.create("half a shard", &json!({"shards": 1.5}), Some("spec.shards")),
        rows.create(
            "a number beyond all numbers",
            &json!({"shards": 4_294_967_299_u64}),
            Some("spec.shards"),
        ),
        rows.create("negative replicas", &json!({"replicas": -1}), Some("spec.replicas")),
        rows.create("too many replicas", &json!({"replicas": 11}), Some("spec.replicas")),
        rows.create("replicas as text", &json!({"replicas": "1"}), Some("spec.replicas")),
        rows.create("rolling several shards", &json!({"rollingUpdate": {"maxUnavailableShards": 2}}), None),
        rows.create(
            "rolling no shard",
            &json!({"rollingUpdate": {"maxUnavailableShards": 0}}),
            Some("maxUnavailableShards"),
        ),
    ]
}

fn images(rows: &Rows) -> Vec<Case> {
    let resources =
        json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": 1, "memory": "512Mi"}});
    vec![
        rows.create(
            "own images from a private registry",
            &json!({
                "image": "example.com/valkey:9.1.1", "imagePullSecrets": [{"name": "pull"}],
                "exporter": {"image": "example.com/exporter:v1", "args": ["-ping-on-connect"]},
            }),
            None,
        ),
        rows.create(
            "texts a template left empty",
            &json!({
                "image": "", "exporter": {"image": ""}, "scheduling": {"priorityClassName": ""},
                "users": [{"name": "app", "passwordSecret": {"name": ""}}],
            }),
            None,
        ),
        rows.create("image with a space", &json!({"image": "valkey valkey"}), Some("spec.image")),
        rows.create("resources", &json!({"resources": resources}), None),
        rows.create(
            "an amount that is none",
            &json!({"resources": {"limits": {"memory": "much"}}}),
            Some("resources.limits"),
        ),
        rows.create(
            "less than nothing",
            &json!({"resources": {"requests": {"cpu": "-1"}}}),
            Some("resources.requests"),
        ),
        rows.create("no exporter", &json!({"exporter": {"enabled": false}}), None),
        rows.create("the exporter with its defaults", &json!({"exporter": {}}), None),
        rows.create(
            "an exporter with everything",
            &json!({"exporter": {
                "enabled": true, "resources": resources,
                "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
            }}),
            None,
        ),
        rows.create("exporter as a switch", &json!({"exporter": true}), Some("spec.exporter")),
        rows.create(
            "too many arguments",
            &json!({"exporter": {"args": vec!["-debug"; 65]}}),
            Some("exporter.args"),
        ),
    ]
}

fn containers(rows: &Rows) -> Vec<Case> {
    let of = |containers: Value| json!({"containers": containers});
    vec![
        rows.create(
            "the server by the name other operators use",
            &of(json!([{"name": "server", "env": [{"name": "TZ", "value": "UTC"}]}])),
            None,
        ),
        rows.create(
            "all of ours and one more",
            &of(json!([
                {"name": "valkey", "securityContext": {"readOnlyRootFilesystem": true, "runAsUser": 1000}},
                {"name": "metrics-exporter", "resources": {"limits": {"memory": "64Mi"}}},
                {"name": "sidecar", "image": "example.com/sidecar", "command": ["sleep", "infinity"]},
            ])),
            None,
        ),
        rows.create(
            "the server twice",
            &of(json!([{"name": "server"}, {"name": "valkey"}])),
            Some("which are the same container"),
        ),
        rows.create(
            "a name twice",
            &of(json!([{"name": "valkey"}, {"name": "valkey"}])),
            Some("spec.containers[1]"),
        ),
        rows.create(
            "our init container",
            &of(json!([{"name": "valkey-init", "image": "example.com/other"}])),
            Some("give yours another name"),
        ),
        rows.create(
            "a name that was mistyped",
            &of(json!([{"name": "valkye", "resources": {}}])),
            Some("a container that is added needs an image"),
        ),
        rows.create(
            "a name that no container can have",
            &of(json!([{"name": "My_Sidecar", "image": "x"}])),
            Some("containers[0].name"),
        ),
        rows.create(
            "another program instead of the server",
            &of(json!([{"name": "server", "command": ["sleep", "infinity"]}])),
            Some("cannot replace the command of the server"),
        ),
        rows.create("a container without a name", &of(json!([{"image": "x"}])), Some("containers[0].name")),
        rows.create(
            "a field of the wrong type",
            &of(json!([{"name": "valkey", "env": "TZ=UTC"}])),
            Some("containers[0].env"),
        ),
        rows.create(
            "too many containers",
            &of((0..33).map(|n| json!({"name": format!("c{n}"), "image": "x"})).collect()),
            Some("spec.containers"),
        ),
    ]
}

fn pods(rows: &Rows) -> Vec<Case> {
    vec![
        rows.create("every workload type: Deployment", &json!({"workloadType": "Deployment"}), None),
        rows.create("every workload type: Pod", &json!({"workloadType": "Pod"}), None),
        rows.create("unknown workload type", &json!({"workloadType": "Job"}), Some("workloadType")),
        rows.create("time to hand over", &json!({"terminationGracePeriodSeconds": 60}), None),
        rows.create(
            "no time to hand over",
            &json!({"terminationGracePeriodSeconds": 0}),
            Some("terminationGracePeriodSeconds"),
        ),
        rows.create(
            "own security settings",
            &json!({"podSecurityContext": {"fsGroup": 1000, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}),
            None,
        ),
        rows.create(
            "overlay",
            &json!({"podTemplate": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}},
                "spec": {"hostAliases": [{"ip": "127.0.0.1", "hostnames": ["x"]}]},
            }}),
            None,
        ),
        rows.create(
            "overlay of the wrong type",
            &json!({"podTemplate": {"spec": {"containers": "all"}}}),
            Some("podTemplate.spec.containers"),
        ),
        rows.create("one budget", &json!({"podDisruptionBudget": {"mode": "Cluster"}}), None),
        rows.create("no budget", &json!({"podDisruptionBudget": {"mode": "Disabled"}}), None),
        rows.create("the budget by default", &json!({"podDisruptionBudget": {}}), None),
        rows.create(
            "a budget of another kind",
            &json!({"podDisruptionBudget": {"mode": "Shard"}}),
            Some("podDisruptionBudget.mode"),
        ),
    ]
}

fn networking(rows: &Rows) -> Vec<Case> {
    let of = |certificates: Value| json!({"networking": {"tls": {"certificates": certificates}}});
    vec![
        rows.create("TLS", &of(json!({"server": {"secretName": "cert"}})), None),
        rows.create("no TLS", &json!({"networking": {}}), None),
        rows.create(
            "TLS without a certificate",
            &json!({"networking": {"tls": {}}}),
            Some("tls.certificates"),
        ),
        rows.create("certificates without the server's", &of(json!({})), Some("certificates.server")),
        rows.create(
            "a certificate without a name",
            &of(json!({"server": {"secretName": ""}})),
            Some("server.secretName"),
        ),
        rows.update(
            "TLS from another Secret",
            &of(json!({"server": {"secretName": "cert"}})),
            &of(json!({"server": {"secretName": "other"}})),
            None,
        ),
        rows.update(
            "TLS for a cluster that runs without",
            &json!({}),
            &of(json!({"server": {"secretName": "cert"}})),
            Some("networking.tls cannot be added"),
        ),
        rows.update(
            "no TLS any more",
            &of(json!({"server": {"secretName": "cert"}})),
            &json!({"networking": {}}),
            Some("networking.tls cannot be added to or removed"),
        ),
        rows.create(
            "a certificate of a name that no Secret has",
            &of(json!({"server": {"secretName": "Not A Secret"}})),
            Some("server.secretName"),
        ),
    ]
}

fn storage(rows: &Rows) -> Vec<Case> {
    let of = |claim: String| json!({"persistence": {"mode": "external", "existingClaim": claim}});
    vec![
        rows.create("the longest prefix of claims", &of("c".repeat(246)), None),
        rows.create(
            "a prefix of claims that is too long",
            &of("c".repeat(247)),
            Some("246 characters at most"),
        ),
        rows.create(
            "a volume for each server of a Deployment",
            &json!({"workloadType": "Deployment", "persistence": {"size": "1Gi"}}),
            None,
        ),
    ]
}

fn configs(rows: &Rows) -> Vec<Case> {
    let many: serde_json::Map<String, Value> = (0..201).map(|n| (format!("d{n}"), json!("x"))).collect();
    vec![
        rows.create(
            "directives of the operator's own are not refused",
            &json!({"config": {"cluster-enabled": "no", "port": "1", "dir": "/tmp", "aclfile": "/x"}}),
            None,
        ),
        rows.create(
            "a directive that is a number",
            &json!({"config": {"io-threads": 4}}),
            Some("config.io-threads"),
        ),
        rows.create("too many directives", &json!({"config": many}), Some("spec.config")),
        rows.create("enough clients", &json!({"config": {"maxclients": "100"}}), None),
        rows.create(
            "too few clients",
            &json!({"config": {"MaxClients": "099"}}),
            Some("maxclients must be 100 at least"),
        ),
    ]
}

fn updates(rows: &Rows) -> Vec<Case> {
    vec![
        rows.update("scaling out", &json!({"shards": 3}), &json!({"shards": 6, "replicas": 2}), None),
        rows.update("scaling in", &json!({"shards": 6, "replicas": 2}), &json!({"shards": 1}), None),
        rows.update("another image", &json!({}), &json!({"image": "valkey/valkey:8.1"}), None),
        rows.update(
            "another workload type",
            &json!({"workloadType": "Deployment"}),
            &json!({}),
            Some("workloadType cannot be changed"),
        ),
        rows.update(
            "default workload type spelled out",
            &json!({}),
            &json!({"workloadType": "StatefulSet"}),
            None,
        ),
        rows.update("no exporter any more", &json!({}), &json!({"exporter": {"enabled": false}}), None),
    ]
}

fn names(rows: &Rows) -> Vec<Case> {
    vec![
        rows.named("longest name", "c".repeat(CLUSTER_NAME_MAX), None),
        rows.named("name too long", "c".repeat(CLUSTER_NAME_MAX + 1), Some("38 characters at most")),
        rows.named("name with a dot", "a.b".to_owned(), Some("cannot contain a dot")),
    ]
}
