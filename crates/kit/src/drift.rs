//! Whether an object in the cluster still is what was applied, judged without writing.
//!
//! Everything we want must be there with our value; what is there beyond that is either a default of the API server or
//! somebody else's field and is left alone. Lists are the exception: an item that we did not ask for (a container, a
//! volume, a variable) changes what runs, so lists must match item by item. So must selectors, which select less with
//! every key.

use serde_json::Value;

use crate::quantity;

/// The paths at which `live` differs from what `desired` asks for. Empty: nothing to write.
pub fn differences(desired: &Value, live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(desired, live, &mut Vec::new(), &mut found);
    found
}

fn compare(desired: &Value, live: &Value, path: &mut Vec<String>, found: &mut Vec<String>) {
    match (desired, live) {
        (Value::Object(wanted), Value::Object(present)) => {
            let whole = path.last().is_some_and(|key| key == "selector" || key == "nodeSelector");
            if whole && present.keys().any(|key| !wanted.contains_key(key)) {
                found.push(path.join("."));
                return;
            }
            for (key, value) in wanted {
                path.push(key.clone());
                match present.get(key) {
                    Some(there) => compare(value, there, path, found),
                    // The API server drops empty values: asking for nothing and having nothing are the same.
                    None if is_empty(value) || is_zero(value) => {}
                    None => found.push(path.join(".")),
                }
                path.pop();
            }
        }
        (Value::Array(wanted), Value::Array(present)) => {
            if wanted.len() != present.len() && path.last().is_none_or(|key| key != "ownerReferences") {
                found.push(path.join("."));
                return;
            }
            for (index, value) in wanted.iter().enumerate() {
                path.push(item_name(value, index));
                match counterpart(value, index, present) {
                    Some(there) => compare(value, there, path, found),
                    None => found.push(path.join(".")),
                }
                path.pop();
            }
        }
        (wanted, present) if wanted == present || (is_empty(wanted) && is_empty(present)) => {}
        (wanted, present) if same_amount(wanted, present, path) => {}
        _ => found.push(path.join(".")),
    }
}

/// Lists that Kubernetes merges by a key may come back in another order.
fn counterpart<'a>(wanted: &Value, index: usize, present: &'a [Value]) -> Option<&'a Value> {
    const KEYS: [&str; 4] = ["name", "uid", "mountPath", "containerPort"];
    for key in KEYS {
        if let Some(value) = wanted.get(key) {
            let mut matching = present.iter().filter(|item| item.get(key) == Some(value));
            if let (Some(only), None) = (matching.next(), matching.next()) {
                return Some(only);
            }
        }
    }
    present.get(index)
}

fn item_name(value: &Value, index: usize) -> String {
    value.get("name").and_then(Value::as_str).map_or_else(|| index.to_string(), ToOwned::to_owned)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Where nothing means 0 or false, Kubernetes' own types leave both away; where it means something else, the API server
/// has filled that in.
fn is_zero(value: &Value) -> bool {
    value == &Value::Bool(false) || value.as_i64() == Some(0)
}

/// Quantities come back in canonical form: `0.5` as `500m`, `1024Mi` as `1Gi`.
fn same_amount(wanted: &Value, present: &Value, path: &[String]) -> bool {
    const AMOUNTS: [&str; 4] = ["requests", "limits", "capacity", "sizeLimit"];
    let amount = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    path.iter().any(|key| AMOUNTS.contains(&key.as_str()))
        && matches!((amount(wanted), amount(present)), (Some(one), Some(two)) if quantity::same(&one, &two))
}

/// JSON pointers (deepest index first, so that removing one does not move the next) of the items in `live` that
/// `desired` does not have, in lists that Kubernetes merges: containers, volumes, variables, mounts, ports. Server-side apply
/// never removes another manager's item; these must be taken out one by one.
pub fn foreign_items(desired: &Value, live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_foreign(desired, live, "", &mut found);
    found.reverse();
    found
}

fn collect_foreign(desired: &Value, live: &Value, pointer: &str, found: &mut Vec<String>) {
    // Ports of a container are told apart by the first key, ports of a Service by the second.
    const LISTS: [(&str, &[&str]); 9] = [
        ("initContainers", &["name"]),
        ("containers", &["name"]),
        ("volumes", &["name"]),
        ("env", &["name"]),
        ("volumeMounts", &["mountPath"]),
        ("volumeDevices", &["devicePath"]),
        ("ports", &["containerPort", "port"]),
        ("imagePullSecrets", &["name"]),
        ("topologySpreadConstraints", &["topologyKey"]),
    ];
    // Whole fields of a container that change what it runs.
    const FIELDS: [&str; 2] = ["args", "envFrom"];
    let (Value::Object(wanted), Value::Object(present)) = (desired, live) else { return };
    for (key, there) in present {
        let below = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        let asked = wanted.get(key);
        if let (Some((_, ids)), Value::Array(items)) = (LISTS.iter().find(|(list, _)| list == key), there) {
            let known = asked.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let same = |one: &Value, two: &Value| {
                ids.iter().any(|id| one.get(*id).is_some() && one.get(*id) == two.get(*id))
            };
            // A pod without containers is refused: as long as none of ours is there, theirs stay.
            if key == "containers" && !items.iter().any(|item| known.iter().any(|known| same(known, item))) {
                continue;
            }
            for (index, item) in items.iter().enumerate() {
                match known.iter().find(|known| same(known, item)) {
                    Some(known) => collect_foreign(known, item, &format!("{below}/{index}"), found),
                    None => found.push(format!("{below}/{index}")),
                }
            }
        } else if let Some(asked) = asked {
            collect_foreign(asked, there, &below, found);
        } else if FIELDS.contains(&key.as_str()) {
            found.push(below);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn template() -> Value {
        json!({"spec": {
            "containers": [{"name": "valkey", "image": "v:1", "resources": {"limits": {"cpu": "0.5"}}}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        }})
    }

    #[test]
    fn defaults_and_foreign_fields_are_left_alone() {
        let live = json!({"metadata": {"annotations": {"other": "1"}}, "spec": {
            "containers": [{"name": "valkey", "image": "v:1", "imagePullPolicy": "IfNotPresent",
                            "resources": {"limits": {"cpu": "500m"}}}],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "dnsPolicy": "ClusterFirst",
        }});
        assert_eq!(differences(&template(), &live), Vec::<String>::new());
        assert_eq!(foreign_items(&template(), &live), Vec::<String>::new());
    }

    #[test]
    fn a_changed_field_is_found_with_its_path() {
        let mut live = template();
        live["spec"]["containers"][0]["image"] = json!("v:2");
        assert_eq!(differences(&template(), &live), ["spec.containers.valkey.image"]);
    }

    #[test]
    fn an_added_container_volume_and_variable_are_foreign() {
        let mut live = template();
        live["spec"]["containers"][0]["env"] = json!([{"name": "DEBUG", "value": "1"}]);
        live["spec"]["containers"] = json!([{"name": "spy", "image": "s"}, live["spec"]["containers"][0]]);
        live["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}, {"name": "a"}, {"name": "b"}]);
        assert_eq!(differences(&template(), &live), ["spec.containers", "spec.volumes"]);
        assert_eq!(
            foreign_items(&template(), &live),
            ["/spec/volumes/2", "/spec/volumes/1", "/spec/containers/1/env/0", "/spec/containers/0"]
        );
    }

    #[test]
    fn a_second_owner_is_not_a_difference_but_a_missing_one_is() {
        let desired = json!({"metadata": {"ownerReferences": [{"uid": "1", "kind": "ValkeyNode"}]}});
        let more =
            json!({"metadata": {"ownerReferences": [{"uid": "2"}, {"uid": "1", "kind": "ValkeyNode"}]}});
        assert_eq!(differences(&desired, &more), Vec::<String>::new());
        let none = json!({"metadata": {}});
        assert_eq!(differences(&desired, &none), ["metadata.ownerReferences"]);
    }

    #[test]
    fn an_empty_wish_is_no_difference() {
        let desired = json!({"spec": {"emptyDir": {}, "list": [], "text": "", "delay": 0, "flag": false}});
        assert_eq!(differences(&desired, &json!({"spec": {}})), Vec::<String>::new());
        assert_eq!(differences(&json!({"delay": 0}), &json!({"delay": 5})), ["delay"]);
    }

    #[test]
    fn an_added_port_pull_secret_or_constraint_is_foreign() {
        let desired = json!({"spec": {
            "ports": [{"name": "valkey", "port": 6379, "targetPort": "valkey"}],
            "containers": [{"name": "valkey", "ports": [{"name": "valkey", "containerPort": 6379}]}],
            "imagePullSecrets": [{"name": "ours"}],
            "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
        }});
        assert_eq!(foreign_items(&desired, &desired), Vec::<String>::new());
        let mut live = desired.clone();
        live["spec"]["ports"] = json!([{"port": 80}, live["spec"]["ports"][0]]);
        live["spec"]["containers"][0]["ports"] =
            json!([live["spec"]["containers"][0]["ports"][0], {"containerPort": 80}]);
        live["spec"]["imagePullSecrets"] = json!([{"name": "ours"}, {"name": "theirs"}]);
        live["spec"]["topologySpreadConstraints"] =
            json!([{"topologyKey": "host", "maxSkew": 1}, {"topologyKey": "zone", "maxSkew": 1}]);
        let mut found = foreign_items(&desired, &live);
        found.sort_unstable();
        assert_eq!(
            found,
            [
                "/spec/containers/0/ports/1",
                "/spec/imagePullSecrets/1",
                "/spec/ports/0",
                "/spec/topologySpreadConstraints/0",
            ]
        );
    }

    #[test]
    fn pointers_of_one_list_come_last_index_first() {
        let live = json!({"volumes": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
        assert_eq!(foreign_items(&json!({"volumes": [{"name": "b"}]}), &live), ["/volumes/2", "/volumes/0"]);
    }

    #[test]
    fn an_added_key_changes_what_a_selector_selects() {
        let desired =
            json!({"spec": {"selector": {"a": "1"}, "nodeSelector": {"b": "2"}, "data": {"c": "3"}}});
        let live = json!({"spec": {
            "selector": {"a": "1", "x": "1"}, "nodeSelector": {"b": "2", "x": "1"}, "data": {"c": "3", "x": "1"},
        }});
        assert_eq!(differences(&desired, &live), ["spec.nodeSelector", "spec.selector"]);
        assert_eq!(differences(&desired, &desired), Vec::<String>::new());
    }

    #[test]
    fn named_items_may_come_back_in_another_order() {
        let desired =
            json!({"volumeMounts": [{"name": "a", "mountPath": "/1"}, {"name": "a", "mountPath": "/2"}]});
        let live =
            json!({"volumeMounts": [{"name": "a", "mountPath": "/2"}, {"name": "a", "mountPath": "/1"}]});
        assert_eq!(differences(&desired, &live), Vec::<String>::new());
    }

    #[test]
    fn a_removed_item_and_a_replaced_list_are_differences() {
        let desired = json!({"tolerations": [{"key": "a"}, {"key": "b"}], "args": ["x", "y"]});
        assert_eq!(
            differences(&desired, &json!({"tolerations": [{"key": "a"}], "args": ["x", "y"]})),
            ["tolerations"]
        );
        assert_eq!(
            differences(&desired, &json!({"tolerations": [{"key": "a"}, {"key": "b"}], "args": ["y", "x"]})),
            ["args.0", "args.1"]
        );
    }

    #[test]
    fn the_last_container_stays_until_ours_is_back() {
        let mut live = template();
        live["spec"]["containers"][0]["name"] = json!("renamed");
        assert_eq!(foreign_items(&template(), &live), Vec::<String>::new());
        assert_eq!(differences(&template(), &live), ["spec.containers.valkey.name"]);
        live["spec"]["containers"] =
            json!([live["spec"]["containers"][0], template()["spec"]["containers"][0]]);
        assert_eq!(foreign_items(&template(), &live), ["/spec/containers/0"]);
    }
}
