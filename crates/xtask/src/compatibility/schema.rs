//! Whether one schema accepts all that another one did.

use serde_json::Value;

/// Adds the paths at which something valid before would not be valid, or not mean the same, any more.
pub(super) fn compare(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    if before["type"] != after["type"] {
        found.push(format!("{path}: the type changed from {} to {}", before["type"], after["type"]));
        return;
    }
    for key in ["pattern", "format", "x-kubernetes-int-or-string"] {
        if !after[key].is_null() && before[key] != after[key] {
            found.push(format!("{path}: {key} changed from {} to {}", before[key], after[key]));
        }
    }
    for (key, tighter) in [
        ("maxLength", -1),
        ("maximum", -1),
        ("maxItems", -1),
        ("maxProperties", -1),
        ("minLength", 1),
        ("minimum", 1),
        ("minItems", 1),
        ("minProperties", 1),
    ] {
        if is_tighter(&before[key], &after[key], tighter) {
            found.push(format!("{path}: {key} became stricter, from {} to {}", before[key], after[key]));
        }
    }
    compare_values(before, after, path, found);
    let rules = |schema: &Value| -> Vec<String> {
        let list = schema["x-kubernetes-validations"].as_array();
        list.into_iter().flatten().filter_map(|rule| rule["rule"].as_str().map(ToOwned::to_owned)).collect()
    };
    let known = rules(before);
    for rule in rules(after).into_iter().filter(|rule| !known.contains(rule)) {
        found.push(format!("{path}: a new rule may refuse stored objects: {rule}"));
    }
    compare_fields(before, after, path, found);
}

/// Which values there are, and which one stands for none.
fn compare_values(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    if before["enum"].is_null() && !after["enum"].is_null() {
        found.push(format!("{path}: only some values are left: {}", after["enum"]));
    }
    if let Some(choices) = after["enum"].as_array() {
        for choice in
            before["enum"].as_array().into_iter().flatten().filter(|choice| !choices.contains(choice))
        {
            found.push(format!("{path}: the choice {choice} is gone"));
        }
    }
    if before["nullable"] == true && after["nullable"] != true {
        found.push(format!("{path}: null is not allowed any more"));
    }
    // A default for a field that had none is how a CRD grows.
    if !before["default"].is_null() && before["default"] != after["default"] {
        found.push(format!("{path}: the default changed from {} to {}", before["default"], after["default"]));
    }
}

fn is_tighter(before: &Value, after: &Value, direction: i64) -> bool {
    match (before.as_f64(), after.as_f64()) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => {
            if direction < 0 {
                after < before
            } else {
                after > before
            }
        }
    }
}

fn compare_fields(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    for (name, field) in before["properties"].as_object().into_iter().flatten() {
        match after["properties"].get(name) {
            Some(now) => compare(field, now, &format!("{path}.{name}"), found),
            None => found.push(format!("{path}.{name}: the field is gone")),
        }
    }
    let required = |schema: &Value| -> Vec<String> {
        let list = schema["required"].as_array();
        list.into_iter().flatten().filter_map(|name| name.as_str().map(ToOwned::to_owned)).collect()
    };
    let known = required(before);
    for name in required(after).into_iter().filter(|name| !known.contains(name)) {
        if after["properties"][&name]["default"].is_null() {
            found.push(format!("{path}.{name}: became required without a default"));
        }
    }
    for key in ["items", "additionalProperties"] {
        if before[key].is_object() {
            compare(&before[key], &after[key], &format!("{path}.{key}"), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn base() -> Value {
        json!({"type": "object", "required": ["image"], "properties": {
            "image": {"type": "string", "maxLength": 10},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "size": {"type": "integer", "nullable": true, "default": 1},
        }})
    }

    fn changed(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut after = base();
        change(&mut after);
        let mut found = Vec::new();
        compare(&base(), &after, "x", &mut found);
        found
    }

    #[test]
    fn growing_is_fine() {
        assert!(changed(|_| ()).is_empty());
        assert!(changed(|s| s["properties"]["new"] = json!({"type": "string"})).is_empty());
        assert!(changed(|s| s["properties"]["mode"]["enum"] = json!(["a", "b", "c"])).is_empty());
        assert!(changed(|s| s["properties"]["image"]["maxLength"] = json!(20)).is_empty());
        assert!(changed(|s| s["properties"]["image"]["nullable"] = json!(true)).is_empty());
        assert!(changed(|s| s["properties"]["mode"]["enum"] = json!(null)).is_empty());
        assert!(
            changed(|s| {
                s["properties"]["new"] = json!({"type": "string", "default": "x"});
                s["required"] = json!(["image", "new"]);
            })
            .is_empty()
        );
    }

    #[test]
    fn a_stricter_schema_is_found() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 12] = [
            (
                |s| {
                    s["properties"] =
                        json!({"image": base()["properties"]["image"], "mode": base()["properties"]["mode"]});
                },
                "x.size: the field is gone",
            ),
            (|s| s["properties"]["image"]["type"] = json!("integer"), "x.image: the type changed"),
            (|s| s["properties"]["mode"]["enum"] = json!(["a"]), "x.mode: the choice \"b\" is gone"),
            (|s| s["properties"]["image"]["maxLength"] = json!(5), "x.image: maxLength became stricter"),
            (|s| s["properties"]["image"]["minLength"] = json!(1), "x.image: minLength became stricter"),
            (|s| s["required"] = json!(["image", "mode"]), "x.mode: became required"),
            (|s| s["properties"]["image"]["enum"] = json!(["a"]), "x.image: only some values are left"),
            (|s| s["minProperties"] = json!(1), "x: minProperties became stricter"),
            (|s| s["properties"]["size"]["nullable"] = json!(false), "x.size: null is not allowed"),
            (|s| s["properties"]["size"]["default"] = json!(2), "x.size: the default changed from 1 to 2"),
            (
                |s| s["properties"]["size"]["default"] = json!(null),
                "x.size: the default changed from 1 to null",
            ),
            (|s| s["x-kubernetes-validations"] = json!([{"rule": "false"}]), "x: a new rule"),
        ];
        for (change, expected) in cases {
            let found = changed(change);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
        }
    }
}
