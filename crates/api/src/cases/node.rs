//! Rows for `ValkeyNode`.

use serde_json::{Value, json};

use super::{Case, Rows, shared};

pub(super) fn cases() -> Vec<Case> {
    let rows = Rows { kind: "ValkeyNode", smallest: json!({"image": "valkey/valkey:9.1"}) };
    [
        creations(&rows),
        shared::persistence(&rows),
        shared::persistence_updates(&rows),
        shared::directives(&rows),
        configs(&rows),
        updates(&rows),
    ]
    .concat()
}

fn creations(rows: &Rows) -> Vec<Case> {
    vec![
        rows.create("minimal", &json!({}), None),
        rows.create("every workload type: Deployment", &json!({"workloadType": "Deployment"}), None),
        rows.create(
            "every workload type: Pod",
            &json!({"workloadType": "Pod", "updateStrategy": "OnDelete"}),
            None,
        ),
        rows.create("unknown workload type", &json!({"workloadType": "Job"}), Some("workloadType")),
        rows.create("no image", &json!({"image": ""}), Some("image")),
        rows.create("image with a space", &json!({"image": "a b"}), Some("image")),
        rows.create(
            "Deployment cannot wait for deletion",
            &json!({"workloadType": "Deployment", "updateStrategy": "OnDelete"}),
            Some("updateStrategy OnDelete needs workloadType StatefulSet or Pod"),
        ),
        rows.create(
            "negative grace",
            &json!({"terminationGracePeriodSeconds": -1}),
            Some("terminationGracePeriodSeconds"),
        ),
        rows.create(
            "user without password",
            &json!({"access": {"user": "u"}}),
            Some("user needs passwordSecretRef"),
        ),
        rows.create(
            "password reference",
            &json!({"access": {"user": "u", "passwordSecretRef": {"name": "s", "key": "k"}}}),
            None,
        ),
        rows.create(
            "overlay without containers",
            &json!({"podTemplate": {"spec": {"hostNetwork": false}, "metadata": {"labels": {"a": "b"}}}}),
            None,
        ),
        rows.create(
            "overlay of the wrong type",
            &json!({"podTemplate": {"spec": {"containers": "all"}}}),
            Some("podTemplate.spec.containers"),
        ),
        rows.named("longest name", "n".repeat(45), None),
        rows.named("name too long", "n".repeat(46), Some("45 characters at most")),
        rows.named("name with a dot", "a.b".to_owned(), Some("cannot contain a dot")),
    ]
}

fn configs(rows: &Rows) -> Vec<Case> {
    let of = |config: Value| json!({"config": config});
    vec![
        rows.create("include", &of(json!({"include": "/etc/passwd"})), Some("cannot set include")),
        rows.create(
            "include in capitals",
            &of(json!({"INCLUDE": "/etc/passwd"})),
            Some("cannot set include"),
        ),
        rows.create(
            "data directory",
            &of(json!({"dir": "/tmp"})),
            Some("cannot set include, daemonize, supervised or dir"),
        ),
        rows.create("daemonize", &of(json!({"daemonize": "yes"})), Some("cannot set include")),
    ]
}

fn updates(rows: &Rows) -> Vec<Case> {
    vec![
        rows.update("another image", &json!({}), &json!({"image": "valkey/valkey:8.1"}), None),
        rows.update(
            "another workload type",
            &json!({"workloadType": "Pod"}),
            &json!({"workloadType": "StatefulSet"}),
            Some("workloadType cannot be changed"),
        ),
        rows.update(
            "default workload type spelled out",
            &json!({}),
            &json!({"workloadType": "StatefulSet"}),
            None,
        ),
    ]
}
