//! Specs that must be accepted or refused, each with what the user is told. The same table runs against the rules in
//! unit tests and against a real API server.

use serde_json::{Value, json};

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows.
    pub name: &'static str,
    /// The object's name.
    pub object_name: String,
    /// The spec before an update; `None` for a creation.
    pub before: Option<Value>,
    /// The spec to judge.
    pub spec: Value,
    /// Part of the message if it must be refused.
    pub refused: Option<&'static str>,
}

fn with(image_and: &Value) -> Value {
    let mut spec = json!({"image": "valkey/valkey:9.1"});
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), image_and.as_object()) {
        spec.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    spec
}

fn create(name: &'static str, spec: &Value, refused: Option<&'static str>) -> Case {
    Case { name, object_name: "case".to_owned(), before: None, spec: with(spec), refused }
}

fn update(name: &'static str, before: &Value, spec: &Value, refused: Option<&'static str>) -> Case {
    Case { before: Some(with(before)), ..create(name, spec, refused) }
}

fn named(name: &'static str, object_name: String, refused: Option<&'static str>) -> Case {
    Case { object_name, ..create(name, &json!({}), refused) }
}

/// Every row for `ValkeyNode`.
pub fn valkey_node() -> Vec<Case> {
    [creations(), persistence(), configs(), updates()].concat()
}

fn creations() -> Vec<Case> {
    vec![
        create("minimal", &json!({}), None),
        create("every workload type: Deployment", &json!({"workloadType": "Deployment"}), None),
        create(
            "every workload type: Pod",
            &json!({"workloadType": "Pod", "updateStrategy": "OnDelete"}),
            None,
        ),
        create("unknown workload type", &json!({"workloadType": "Job"}), Some("workloadType")),
        create("no image", &json!({"image": ""}), Some("image")),
        create("image with a space", &json!({"image": "a b"}), Some("image")),
        create(
            "Deployment cannot wait for deletion",
            &json!({"workloadType": "Deployment", "updateStrategy": "OnDelete"}),
            Some("updateStrategy OnDelete needs workloadType StatefulSet or Pod"),
        ),
        create(
            "negative grace",
            &json!({"terminationGracePeriodSeconds": -1}),
            Some("terminationGracePeriodSeconds"),
        ),
        create(
            "user without password",
            &json!({"access": {"user": "u"}}),
            Some("user needs passwordSecretRef"),
        ),
        create(
            "password reference",
            &json!({"access": {"user": "u", "passwordSecretRef": {"name": "s", "key": "k"}}}),
            None,
        ),
        create(
            "overlay without containers",
            &json!({"podTemplate": {"spec": {"hostNetwork": false}, "metadata": {"labels": {"a": "b"}}}}),
            None,
        ),
        create(
            "overlay of the wrong type",
            &json!({"podTemplate": {"spec": {"containers": "all"}}}),
            Some("podTemplate.spec.containers"),
        ),
        named("longest name", "n".repeat(45), None),
        named("name too long", "n".repeat(46), Some("45 characters at most")),
        named("name with a dot", "a.b".to_owned(), Some("cannot contain a dot")),
    ]
}

fn persistence() -> Vec<Case> {
    let of = |persistence: Value| json!({"persistence": persistence});
    vec![
        create("disabled", &of(json!({"mode": "disabled"})), None),
        create("empty persistence", &of(json!({})), None),
        create("enabled", &of(json!({"mode": "enabled", "size": "1Gi", "storageClassName": "fast"})), None),
        create("size alone means enabled", &of(json!({"size": "1Gi", "reclaimPolicy": "Delete"})), None),
        create(
            "enabled without size",
            &of(json!({"mode": "enabled"})),
            Some("size is required when mode is enabled"),
        ),
        create("size is no quantity", &of(json!({"size": "big"})), Some("positive quantity")),
        create("size is zero", &of(json!({"size": "0"})), Some("positive quantity")),
        create("size is negative", &of(json!({"size": "-1Gi"})), Some("positive quantity")),
        create("external", &of(json!({"mode": "external", "existingClaim": "c"})), None),
        create(
            "external without claim",
            &of(json!({"mode": "external"})),
            Some("existingClaim goes with mode: external"),
        ),
        create(
            "claim without external",
            &of(json!({"mode": "enabled", "size": "1Gi", "existingClaim": "c"})),
            Some("existingClaim goes with mode: external"),
        ),
        create(
            "external with size",
            &of(json!({"mode": "external", "existingClaim": "c", "size": "1Gi"})),
            Some("size is only for mode: enabled"),
        ),
        create(
            "disabled with class",
            &of(json!({"storageClassName": "x"})),
            Some("storageClassName is only for"),
        ),
        create(
            "disabled with reclaim policy",
            &of(json!({"reclaimPolicy": "Delete"})),
            Some("reclaimPolicy is only for"),
        ),
    ]
}

fn configs() -> Vec<Case> {
    let of = |config: Value| json!({"config": config});
    vec![
        create(
            "directives",
            &of(json!({"maxmemory": "1gb", "save": "900 1 300 10", "notify-keyspace-events": ""})),
            None,
        ),
        create("module directive", &of(json!({"search.workers": "2"})), None),
        create(
            "key with a space",
            &of(json!({"maxmemory 1gb": "x"})),
            Some("name of one valkey.conf directive"),
        ),
        create("key with a newline", &of(json!({"a\nport": "1"})), Some("name of one valkey.conf directive")),
        create("empty key", &of(json!({"": "1"})), Some("name of one valkey.conf directive")),
        create("value with a newline", &of(json!({"save": "1 1\nrequirepass x"})), Some("must be one line")),
        create("value with a carriage return", &of(json!({"save": "1 1\rx"})), Some("must be one line")),
        create("include", &of(json!({"include": "/etc/passwd"})), Some("cannot set include")),
        create("include in capitals", &of(json!({"INCLUDE": "/etc/passwd"})), Some("cannot set include")),
        create(
            "data directory",
            &of(json!({"dir": "/tmp"})),
            Some("cannot set include, daemonize, supervised or dir"),
        ),
        create("daemonize", &of(json!({"daemonize": "yes"})), Some("cannot set include")),
    ]
}

fn updates() -> Vec<Case> {
    let of = |persistence: Value| json!({"persistence": persistence});
    vec![
        update("another image", &json!({}), &json!({"image": "valkey/valkey:8.1"}), None),
        update(
            "another workload type",
            &json!({"workloadType": "Pod"}),
            &json!({"workloadType": "StatefulSet"}),
            Some("workloadType cannot be changed"),
        ),
        update(
            "default workload type spelled out",
            &json!({}),
            &json!({"workloadType": "StatefulSet"}),
            None,
        ),
        update("growing", &of(json!({"size": "1Gi"})), &of(json!({"size": "2048Mi"})), None),
        update(
            "same size in another unit",
            &of(json!({"size": "1Gi"})),
            &of(json!({"size": "1024Mi"})),
            None,
        ),
        update(
            "shrinking",
            &of(json!({"size": "2Gi"})),
            &of(json!({"size": "1Gi"})),
            Some("size can only grow"),
        ),
        update(
            "spelling out the mode",
            &of(json!({"size": "1Gi"})),
            &of(json!({"mode": "enabled", "size": "1Gi"})),
            None,
        ),
        update(
            "changing the mode",
            &of(json!({"size": "1Gi"})),
            &of(json!({"mode": "disabled"})),
            Some("mode cannot be changed"),
        ),
        update(
            "adding persistence",
            &json!({}),
            &of(json!({"size": "1Gi"})),
            Some("persistence cannot be added"),
        ),
        update(
            "removing persistence",
            &of(json!({"size": "1Gi"})),
            &json!({}),
            Some("persistence cannot be added"),
        ),
        update("adding disabled persistence", &json!({}), &of(json!({"mode": "disabled"})), None),
        update("removing disabled persistence", &of(json!({"mode": "disabled"})), &json!({}), None),
        update(
            "another storage class",
            &of(json!({"size": "1Gi", "storageClassName": "a"})),
            &of(json!({"size": "1Gi", "storageClassName": "b"})),
            Some("storageClassName cannot be changed"),
        ),
        update(
            "adding a storage class",
            &of(json!({"size": "1Gi"})),
            &of(json!({"size": "1Gi", "storageClassName": "b"})),
            Some("storageClassName cannot be changed"),
        ),
        update(
            "another claim",
            &of(json!({"mode": "external", "existingClaim": "a"})),
            &of(json!({"mode": "external", "existingClaim": "b"})),
            Some("existingClaim cannot be changed"),
        ),
        update(
            "another reclaim policy",
            &of(json!({"size": "1Gi", "reclaimPolicy": "Retain"})),
            &of(json!({"size": "1Gi", "reclaimPolicy": "Delete"})),
            None,
        ),
    ]
}
