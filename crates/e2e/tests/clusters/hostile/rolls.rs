//! Changes that restart a replica which then does not come back: the roll ends there, and the primary serves on.

use serde_json::{Value, json};

use super::row::{Reported, stopped};
use super::with;

/// In three parts, each for a cluster of its own, so that they can go on side by side. At most two pods of a part cannot
/// even be created: a StatefulSet tells of that in events, tries again and again, and may tell 25 times and then once in
/// five minutes.
pub(super) fn rows() -> [Vec<Reported>; 3] {
    [programs(), places(), guests()]
}

fn programs() -> Vec<Reported> {
    vec![
        stopped(
            "an image that is not there",
            json!({"image": "valkey/valkey:no-such-tag"}),
            &["does not come back", "valkey/valkey:no-such-tag"],
        ),
        stopped(
            "an image that is none",
            json!({"image": "HTTP://Valkey:9:1"}),
            &["does not come back", "HTTP://Valkey:9:1"],
        ),
        stopped(
            "a value the server does not start with",
            json!({"config": {"databases": "many"}}),
            &["does not come back", "databases"],
        ),
        stopped(
            "a module that is not there",
            json!({"config": {"loadmodule": "/no/such.so"}}),
            &["does not come back", "/no/such.so"],
        ),
        stopped(
            "memory for nobody",
            json!({"resources": {"limits": {"memory": "64Ki"}}}),
            &["does not come back"],
        ),
    ]
}

fn places() -> Vec<Reported> {
    let of = |what, scheduling: Value, says| stopped(what, json!({"scheduling": scheduling}), says);
    let far = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "example.com/rack", "operator": "In", "values": ["far"]}]}]});
    let away = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": far}});
    vec![
        of(
            "a machine that is not there",
            json!({"nodeSelector": {"example.com/no-such": "machine"}}),
            &["cannot be scheduled", "affinity/selector"],
        ),
        of(
            "an affinity that nothing has",
            json!({"affinity": away}),
            &["cannot be scheduled", "affinity/selector"],
        ),
        of(
            "a zone that is not there",
            json!({"zone": {"pinning": {"zones": ["nowhere"]}}}),
            &["cannot be scheduled", "affinity/selector"],
        ),
        stopped(
            "a thousand processors",
            json!({"resources": {"requests": {"cpu": "1000"}}}),
            &["cannot be scheduled", "Insufficient cpu"],
        ),
        of("a priority that is not there", json!({"priorityClassName": "no-such"}), &["no-such"]),
        stopped(
            "somebody who is not there",
            json!({"podTemplate": {"spec": {"serviceAccountName": "nobody"}}}),
            &["serviceaccount", "nobody"],
        ),
    ]
}

fn guests() -> Vec<Reported> {
    let volume = json!({"podTemplate": {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}});
    let privileged = json!({"containers": [{"name": "valkey", "securityContext": {"privileged": true, "allowPrivilegeEscalation": true}}]});
    let exporter = |fields: Value| json!({"exporter": with(json!({"enabled": true}), &fields)});
    vec![
        stopped("the machine's own files", volume, &["PodSecurity", "hostPath"]),
        stopped("all rights", privileged, &["PodSecurity", "privileged"]),
        stopped(
            "arguments the exporter does not know",
            exporter(json!({"args": ["--no-such-flag"]})),
            &["metrics-exporter", "exit code 2"],
        ),
        stopped(
            "an exporter that is not there",
            exporter(json!({"image": "example.com/no-such/exporter:1"})),
            &["example.com/no-such/exporter:1"],
        ),
    ]
}
