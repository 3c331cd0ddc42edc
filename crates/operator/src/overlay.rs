//! Laying a partial pod spec over ours, by the rules of a strategic merge patch: lists of named things are merged by
//! name, other lists and all scalars are replaced, `null` removes.

use serde_json::{Map, Value};

/// Lists that are merged, and the field that tells their items apart.
const MERGED_BY: [(&str, &str); 9] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("ports", "containerPort"),
    ("imagePullSecrets", "name"),
    ("topologySpreadConstraints", "topologyKey"),
];

/// Objects of which only one member may be set: giving another one replaces what was there.
const ONE_OF: [(&str, &[&str]); 5] = [
    ("startupProbe", &["exec", "httpGet", "tcpSocket", "grpc"]),
    ("readinessProbe", &["exec", "httpGet", "tcpSocket", "grpc"]),
    ("livenessProbe", &["exec", "httpGet", "tcpSocket", "grpc"]),
    ("preStop", &["exec", "httpGet", "tcpSocket", "sleep"]),
    ("postStart", &["exec", "httpGet", "tcpSocket", "sleep"]),
];

/// Lay `overlay` over `base`.
pub(crate) fn lay_over(base: &mut Value, overlay: &Value) {
    if let (Value::Object(base), Value::Object(overlay)) = (base, overlay) {
        merge_fields(base, overlay);
    }
}

fn merge_fields(base: &mut Map<String, Value>, overlay: &Map<String, Value>) {
    for (key, value) in overlay {
        match (base.get_mut(key), value) {
            (_, Value::Null) => {
                base.remove(key);
            }
            (Some(Value::Object(ours)), Value::Object(theirs)) => {
                if let Some((_, members)) = ONE_OF.iter().find(|(object, _)| object == key)
                    && members.iter().any(|member| theirs.contains_key(*member))
                {
                    ours.retain(|field, _| !members.contains(&field.as_str()));
                }
                merge_fields(ours, theirs);
            }
            (Some(Value::Array(ours)), Value::Array(theirs)) => match merge_key(key) {
                Some(id) => merge_items(key, id, ours, theirs),
                None => ours.clone_from(theirs),
            },
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

fn merge_key(list: &str) -> Option<&'static str> {
    MERGED_BY.iter().find(|(name, _)| *name == list).map(|(_, id)| *id)
}

fn merge_items(list: &str, id: &str, ours: &mut Vec<Value>, theirs: &[Value]) {
    for item in theirs {
        let same = ours.iter_mut().find(|known| known.get(id).is_some() && known.get(id) == item.get(id));
        match (same, item) {
            // A volume has exactly one source: another one replaces it.
            (Some(known), _) if list == "volumes" => *known = item.clone(),
            (Some(Value::Object(known)), Value::Object(fields)) => merge_fields(known, fields),
            (Some(known), _) => *known = item.clone(),
            (None, _) => ours.push(item.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn laid(overlay: &Value) -> Value {
        let mut base = json!({
            "containers": [{"name": "valkey", "image": "v", "env": [{"name": "A", "value": "1"}],
                            "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 5}}],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [{"key": "a"}],
            "enableServiceLinks": false,
        });
        lay_over(&mut base, overlay);
        base
    }

    #[test]
    fn containers_and_variables_are_merged_by_name() {
        let result = laid(&json!({"containers": [
            {"name": "valkey", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
            {"name": "exporter", "image": "e"},
        ]}));
        assert_eq!(
            result["containers"],
            json!([
                {"name": "valkey", "image": "v",
                 "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
                 "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 5}},
                {"name": "exporter", "image": "e"},
            ])
        );
    }

    #[test]
    fn another_kind_of_probe_replaces_ours_and_keeps_its_times() {
        let result = laid(&json!({"containers": [
            {"name": "valkey", "readinessProbe": {"httpGet": {"port": 18369, "path": "/readyz"}}},
        ]}));
        assert_eq!(
            result["containers"][0]["readinessProbe"],
            json!({"httpGet": {"port": 18369, "path": "/readyz"}, "periodSeconds": 5})
        );
    }

    #[test]
    fn a_volume_of_another_source_replaces_ours() {
        let result =
            laid(&json!({"volumes": [{"name": "data", "hostPath": {"path": "/x"}}, {"name": "more"}]}));
        assert_eq!(
            result["volumes"],
            json!([{"name": "data", "hostPath": {"path": "/x"}}, {"name": "more"}])
        );
    }

    #[test]
    fn other_lists_are_replaced_scalars_too_and_null_removes() {
        let result =
            laid(&json!({"tolerations": [{"key": "b"}], "enableServiceLinks": true, "volumes": null}));
        assert_eq!(result["tolerations"], json!([{"key": "b"}]));
        assert_eq!(result["enableServiceLinks"], json!(true));
        assert!(result.get("volumes").is_none());
    }

    #[test]
    fn mounts_are_merged_by_path_and_ports_by_number() {
        let mut base = json!({"containers": [{"name": "valkey",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "ports": [{"containerPort": 6379, "name": "valkey"}]}]});
        let overlay = json!({"containers": [{"name": "valkey",
            "volumeMounts": [{"name": "other", "mountPath": "/data"}, {"name": "data", "mountPath": "/more"}],
            "ports": [{"containerPort": 6379, "hostPort": 1}, {"containerPort": 9121}]}]});
        lay_over(&mut base, &overlay);
        assert_eq!(
            base["containers"][0]["volumeMounts"],
            json!([{"name": "other", "mountPath": "/data"}, {"name": "data", "mountPath": "/more"}])
        );
        assert_eq!(
            base["containers"][0]["ports"],
            json!([{"containerPort": 6379, "name": "valkey", "hostPort": 1}, {"containerPort": 9121}])
        );
    }

    #[test]
    fn null_removes_a_field_of_one_container_only() {
        let result = laid(&json!({"containers": [
            {"name": "valkey", "readinessProbe": null},
            {"name": "exporter", "readinessProbe": {"exec": {"command": ["true"]}}},
        ]}));
        assert!(result["containers"][0].get("readinessProbe").is_none());
        assert_eq!(result["containers"][1]["readinessProbe"], json!({"exec": {"command": ["true"]}}));
    }

    proptest::proptest! {
        #[test]
        fn laying_over_twice_is_laying_over_once(
            names in proptest::collection::vec("[a-c]", 0..4),
            value in "[x-z]",
            grace in proptest::option::of(0_i64..9),
        ) {
            let containers: Vec<Value> =
                names.iter().map(|name| json!({"name": name, "image": value, "env": [{"name": name}]})).collect();
            let overlay = json!({"containers": containers, "terminationGracePeriodSeconds": grace});
            let once = laid(&overlay);
            let mut twice = once.clone();
            lay_over(&mut twice, &overlay);
            proptest::prop_assert_eq!(twice, once);
        }

        #[test]
        fn an_empty_overlay_changes_nothing_and_ours_stays_first(names in proptest::collection::vec("[a-c]", 0..4)) {
            proptest::prop_assert_eq!(laid(&json!({})), laid(&json!({"containers": []})));
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            proptest::prop_assert_eq!(&laid(&json!({"containers": containers}))["containers"][0]["name"], "valkey");
        }
    }
}
