//! Rows for `spec.scheduling` of a `ValkeyCluster`.

use serde_json::{Value, json};

use super::{Case, Rows, cluster};

pub(super) fn cases() -> Vec<Case> {
    let rows = cluster::rows();
    [kubernetes_own(&rows), spread(&rows), constraints(&rows), pinning(&rows), pinning_updates(&rows)]
        .concat()
}

fn of(scheduling: &Value) -> Value {
    json!({"scheduling": scheduling})
}

fn pinned(zones: &[&str]) -> Value {
    of(&json!({"zone": {"pinning": {"zones": zones}}}))
}

fn kubernetes_own(rows: &Rows) -> Vec<Case> {
    vec![
        rows.create(
            "what every pod can be told",
            &of(&json!({
                "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "valkey", "effect": "NoSchedule"}],
                "nodeSelector": {"kubernetes.io/arch": "amd64"},
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "valkey"}},
                    "topologyKey": "kubernetes.io/hostname",
                }]}},
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"valkey.io/cluster": "case"}},
                }],
                "priorityClassName": "high",
            })),
            None,
        ),
        rows.create(
            "affinity of the wrong type",
            &of(&json!({"affinity": "anywhere"})),
            Some("scheduling.affinity"),
        ),
        rows.create(
            "too many constraints",
            &of(&json!({"topologySpreadConstraints": vec![
                json!({"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "ScheduleAnyway"}); 33
            ]})),
            Some("scheduling.topologySpreadConstraints"),
        ),
    ]
}

fn spread(rows: &Rows) -> Vec<Case> {
    let node = |shard: &str, primaries: &str, pods: &str| {
        let spread =
            json!({"shard": {"mode": shard}, "primaries": {"mode": primaries}, "pods": {"mode": pods}});
        of(&json!({"node": {"spread": spread}}))
    };
    let zone = |shard: &str, primaries: &str, pods: &str| {
        let spread =
            json!({"shard": {"mode": shard}, "primaries": {"mode": primaries}, "pods": {"mode": pods}});
        of(&json!({"zone": {"spread": spread}}))
    };
    vec![
        rows.create("nothing kept apart", &node("Disabled", "Disabled", "Disabled"), None),
        rows.create(
            "all kinds of spread over machines",
            &node("Required", "Required", "Preferred"),
            None,
        ),
        rows.create("spread of a shard has no rival on machines", &node("Preferred", "Preferred", "Required"), None),
        rows.create(
            "primaries and pods both required on machines",
            &node("Disabled", "Required", "Required"),
            Some("primaries and pods cannot have the same mode"),
        ),
        rows.create(
            "primaries and pods both preferred on machines",
            &node("Disabled", "Preferred", "Preferred"),
            Some("primaries and pods cannot have the same mode"),
        ),
        rows.create("all kinds of spread over zones", &zone("Required", "Preferred", "Disabled"), None),
        rows.create(
            "two required in zones",
            &zone("Required", "Disabled", "Required"),
            Some("only one of shard, primaries and pods"),
        ),
        rows.create(
            "three preferred in zones",
            &zone("Preferred", "Preferred", "Preferred"),
            Some("only one of shard, primaries and pods"),
        ),
        rows.create(
            "machines and zones",
            &of(&json!({
                "node": {"spread": {"shard": {"mode": "Required"}, "pods": {"mode": "Preferred"}}},
                "zone": {"spread": {"shard": {"mode": "Preferred"}}},
            })),
            None,
        ),
        rows.create(
            "rules without a mode",
            &of(&json!({"node": {"spread": {"shard": {}, "primaries": {}, "pods": {}}}, "zone": {"spread": {"shard": {}}}})),
            None,
        ),
        rows.create("empty placement", &of(&json!({"node": {}, "zone": {"spread": {}}})), None),
        rows.create("unknown mode", &node("Always", "Disabled", "Disabled"), Some("node.spread.shard.mode")),
    ]
}

fn constraints(rows: &Rows) -> Vec<Case> {
    let with = |key: &str, when: &str, axis: &str, spread: Value| {
        of(&json!({
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when}],
            (axis): {"spread": spread},
        }))
    };
    let host = "kubernetes.io/hostname";
    let zone = "topology.kubernetes.io/zone";
    vec![
        rows.create(
            "a given constraint of another strength",
            &with(
                host,
                "DoNotSchedule",
                "node",
                json!({"shard": {"mode": "Required"}, "pods": {"mode": "Preferred"}}),
            ),
            None,
        ),
        rows.create(
            "a given constraint beside required pods",
            &with(host, "DoNotSchedule", "node", json!({"pods": {"mode": "Required"}})),
            Some("constraint on kubernetes.io/hostname of the same strength"),
        ),
        rows.create(
            "a given constraint beside preferred primaries",
            &with(host, "ScheduleAnyway", "node", json!({"primaries": {"mode": "Preferred"}})),
            Some("constraint on kubernetes.io/hostname of the same strength"),
        ),
        rows.create(
            "a given constraint on the other axis",
            &with(zone, "ScheduleAnyway", "node", json!({"primaries": {"mode": "Preferred"}})),
            None,
        ),
        rows.create(
            "a given constraint beside a required shard in zones",
            &with(zone, "DoNotSchedule", "zone", json!({"shard": {"mode": "Required"}})),
            Some("constraint on topology.kubernetes.io/zone of the same strength"),
        ),
        rows.create(
            "a given constraint beside preferred pods in zones",
            &with(zone, "ScheduleAnyway", "zone", json!({"pods": {"mode": "Preferred"}})),
            Some("constraint on topology.kubernetes.io/zone of the same strength"),
        ),
    ]
}

fn pinning(rows: &Rows) -> Vec<Case> {
    let many: Vec<String> = (0..33).map(|number| format!("zone-{number}")).collect();
    vec![
        rows.create("pinned to three zones", &pinned(&["eu-1a", "eu-1b", "eu-1c"]), None),
        rows.create(
            "pinned, with a spread that is switched off",
            &of(&json!({
                "zone": {"pinning": {"zones": ["a"]}, "spread": {"shard": {"mode": "Disabled"}, "pods": {}}},
                "node": {"spread": {"shard": {"mode": "Required"}}},
                "nodeSelector": {"kubernetes.io/os": "linux"},
            })),
            None,
        ),
        rows.create("pinned to no zone", &pinned(&[]), Some("pinning.zones")),
        rows.create("pinning without zones", &of(&json!({"zone": {"pinning": {}}})), Some("pinning.zones")),
        rows.create("a zone that is no label", &pinned(&["a", "eu 1a"]), Some("pinning.zones[1]")),
        rows.create(
            "too many zones",
            &of(&json!({"zone": {"pinning": {"zones": many}}})),
            Some("pinning.zones"),
        ),
        rows.create("a zone twice", &pinned(&["a", "b", "a"]), Some("zones must differ")),
        rows.create(
            "pinned and spread",
            &of(&json!({"zone": {"pinning": {"zones": ["a"]}, "spread": {"pods": {"mode": "Preferred"}}}})),
            Some("zone.pinning goes without zone.spread"),
        ),
        rows.create(
            "pinned and selected",
            &of(&json!({"zone": {"pinning": {"zones": ["a"]}}, "nodeSelector": {"topology.kubernetes.io/zone": "a"}})),
            Some("nodeSelector cannot name topology.kubernetes.io/zone"),
        ),
    ]
}

fn pinning_updates(rows: &Rows) -> Vec<Case> {
    vec![
        rows.update("pinning is added", &json!({}), &pinned(&["a", "b"]), None),
        rows.update("pinning is removed", &pinned(&["a", "b"]), &json!({}), None),
        rows.update("pinning stays", &pinned(&["a", "b"]), &pinned(&["a", "b"]), None),
        rows.update(
            "other zones",
            &pinned(&["a", "b"]),
            &pinned(&["a", "b", "c"]),
            Some("zones cannot be changed while pods are pinned"),
        ),
        rows.update(
            "another order of zones",
            &pinned(&["a", "b"]),
            &pinned(&["b", "a"]),
            Some("zones cannot be changed while pods are pinned"),
        ),
    ]
}
