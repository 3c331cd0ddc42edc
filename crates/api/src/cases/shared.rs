//! Rows for fields that several kinds have.

use serde_json::{Value, json};

use super::{Case, Rows};

pub(super) fn persistence(rows: &Rows) -> Vec<Case> {
    let of = |persistence: Value| json!({"persistence": persistence});
    vec![
        rows.create("disabled", &of(json!({"mode": "disabled"})), None),
        rows.create("empty persistence", &of(json!({})), None),
        rows.create(
            "enabled",
            &of(json!({"mode": "enabled", "size": "1Gi", "storageClassName": "fast"})),
            None,
        ),
        rows.create("size alone means enabled", &of(json!({"size": "1Gi", "reclaimPolicy": "Delete"})), None),
        rows.create(
            "enabled without size",
            &of(json!({"mode": "enabled"})),
            Some("size is required when mode is enabled"),
        ),
        rows.create("size is no quantity", &of(json!({"size": "big"})), Some("positive quantity")),
        rows.create("size is zero", &of(json!({"size": "0"})), Some("positive quantity")),
        rows.create("size is negative", &of(json!({"size": "-1Gi"})), Some("positive quantity")),
        rows.create("external", &of(json!({"mode": "external", "existingClaim": "c"})), None),
        rows.create(
            "external without claim",
            &of(json!({"mode": "external"})),
            Some("existingClaim goes with mode: external"),
        ),
        rows.create(
            "claim without external",
            &of(json!({"mode": "enabled", "size": "1Gi", "existingClaim": "c"})),
            Some("existingClaim goes with mode: external"),
        ),
        rows.create(
            "external with size",
            &of(json!({"mode": "external", "existingClaim": "c", "size": "1Gi"})),
            Some("size is only for mode: enabled"),
        ),
        rows.create(
            "disabled with class",
            &of(json!({"storageClassName": "x"})),
            Some("storageClassName is only for"),
        ),
        rows.create(
            "disabled with reclaim policy",
            &of(json!({"reclaimPolicy": "Delete"})),
            Some("reclaimPolicy is only for"),
        ),
    ]
}

pub(super) fn persistence_updates(rows: &Rows) -> Vec<Case> {
    let of = |persistence: Value| json!({"persistence": persistence});
    vec![
        rows.update("growing", &of(json!({"size": "1Gi"})), &of(json!({"size": "2048Mi"})), None),
        rows.update(
            "same size in another unit",
            &of(json!({"size": "1Gi"})),
            &of(json!({"size": "1024Mi"})),
            None,
        ),
        rows.update(
            "shrinking",
            &of(json!({"size": "2Gi"})),
            &of(json!({"size": "1Gi"})),
            Some("size can only grow"),
        ),
        rows.update(
            "spelling out the mode",
            &of(json!({"size": "1Gi"})),
            &of(json!({"mode": "enabled", "size": "1Gi"})),
            None,
        ),
        rows.update(
            "changing the mode",
            &of(json!({"size": "1Gi"})),
            &of(json!({"mode": "disabled"})),
            Some("mode cannot be changed"),
        ),
        rows.update(
            "adding persistence",
            &json!({}),
            &of(json!({"size": "1Gi"})),
            Some("persistence cannot be added"),
        ),
        rows.update(
            "removing persistence",
            &of(json!({"size": "1Gi"})),
            &json!({}),
            Some("persistence cannot be added"),
        ),
        rows.update("adding disabled persistence", &json!({}), &of(json!({"mode": "disabled"})), None),
        rows.update("removing disabled persistence", &of(json!({"mode": "disabled"})), &json!({}), None),
        rows.update(
            "another storage class",
            &of(json!({"size": "1Gi", "storageClassName": "a"})),
            &of(json!({"size": "1Gi", "storageClassName": "b"})),
            Some("storageClassName cannot be changed"),
        ),
        rows.update(
            "adding a storage class",
            &of(json!({"size": "1Gi"})),
            &of(json!({"size": "1Gi", "storageClassName": "b"})),
            Some("storageClassName cannot be changed"),
        ),
        rows.update(
            "another claim",
            &of(json!({"mode": "external", "existingClaim": "a"})),
            &of(json!({"mode": "external", "existingClaim": "b"})),
            Some("existingClaim cannot be changed"),
        ),
        rows.update(
            "another reclaim policy",
            &of(json!({"size": "1Gi", "reclaimPolicy": "Retain"})),
            &of(json!({"size": "1Gi", "reclaimPolicy": "Delete"})),
            None,
        ),
    ]
}

pub(super) fn directives(rows: &Rows) -> Vec<Case> {
    let of = |config: Value| json!({"config": config});
    vec![
        rows.create(
            "directives",
            &of(json!({"maxmemory": "1gb", "save": "900 1 300 10", "notify-keyspace-events": ""})),
            None,
        ),
        rows.create("module directive", &of(json!({"search.workers": "2"})), None),
        rows.create(
            "key with a space",
            &of(json!({"maxmemory 1gb": "x"})),
            Some("name of one valkey.conf directive"),
        ),
        rows.create(
            "key with a newline",
            &of(json!({"a\nport": "1"})),
            Some("name of one valkey.conf directive"),
        ),
        rows.create("empty key", &of(json!({"": "1"})), Some("name of one valkey.conf directive")),
        rows.create(
            "value with a newline",
            &of(json!({"save": "1 1\nrequirepass x"})),
            Some("must be one line"),
        ),
        rows.create("value with a carriage return", &of(json!({"save": "1 1\rx"})), Some("must be one line")),
        rows.create("value with a null", &of(json!({"maxmemory": "1gb\0"})), Some("must be one line")),
        rows.create("value with a tab", &of(json!({"save": "900\t1"})), None),
    ]
}
