//! Objects that are already stored must stay valid: a CRD may only grow, and what it adds must have a default or be
//! optional. The schemas that were promised are kept beside this program.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::crds;

const FOLDER: &str = "crates/xtask/promised";

/// What the present CRDs take away from the promised ones. A CRD that is new is recorded by [`record`].
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (name, crd) in crds::values() {
        let path = root.join(FOLDER).join(format!("{name}.json"));
        if !path.exists() {
            problems.push(format!("{FOLDER}/{name}.json is missing: run `make generate`"));
            continue;
        }
        let promised = read(&path)?;
        problems.extend(broken(&schema(&promised), &schema(&crd), &name));
        if promised != crd && problems.is_empty() {
            problems.push(format!("{FOLDER}/{name}.json is not current: run `make generate`"));
        }
    }
    Ok(problems)
}

/// Keep the present CRDs as promised, but never over a promise that they break.
pub(crate) fn record(root: &Path) -> Result<()> {
    fs::create_dir_all(root.join(FOLDER)).context("failed to make the folder of promised schemas")?;
    for (name, crd) in crds::values() {
        let path = root.join(FOLDER).join(format!("{name}.json"));
        if path.exists() && !broken(&schema(&read(&path)?), &schema(&crd), &name).is_empty() {
            continue;
        }
        let text = serde_json::to_string(&crd).context("failed to print a CRD")?;
        fs::write(&path, text + "\n").with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("failed to parse {}", path.display()))
}

fn schema(crd: &Value) -> Value {
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Paths at which something valid before would not be valid any more.
fn broken(before: &Value, after: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    compare(before, after, path, &mut found);
    found
}

fn compare(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
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
    ] {
        if is_tighter(&before[key], &after[key], tighter) {
            found.push(format!("{path}: {key} became stricter, from {} to {}", before[key], after[key]));
        }
    }
    for choice in before["enum"].as_array().into_iter().flatten() {
        if !after["enum"].as_array().is_some_and(|choices| choices.contains(choice)) {
            found.push(format!("{path}: the choice {choice} is gone"));
        }
    }
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
        }})
    }

    fn changed(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut after = base();
        change(&mut after);
        broken(&base(), &after, "x")
    }

    #[test]
    fn growing_is_fine() {
        assert!(changed(|_| ()).is_empty());
        assert!(changed(|s| s["properties"]["new"] = json!({"type": "string"})).is_empty());
        assert!(changed(|s| s["properties"]["mode"]["enum"] = json!(["a", "b", "c"])).is_empty());
        assert!(changed(|s| s["properties"]["image"]["maxLength"] = json!(20)).is_empty());
        assert!(
            changed(|s| {
                s["properties"]["new"] = json!({"type": "string", "default": "x"});
                s["required"] = json!(["image", "new"]);
            })
            .is_empty()
        );
    }

    #[test]
    fn taking_away_is_found() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 7] = [
            (
                |s| s["properties"] = json!({"image": {"type": "string", "maxLength": 10}}),
                "x.mode: the field is gone",
            ),
            (|s| s["properties"]["image"]["type"] = json!("integer"), "x.image: the type changed"),
            (|s| s["properties"]["mode"]["enum"] = json!(["a"]), "x.mode: the choice \"b\" is gone"),
            (|s| s["properties"]["image"]["maxLength"] = json!(5), "x.image: maxLength became stricter"),
            (|s| s["properties"]["image"]["minLength"] = json!(1), "x.image: minLength became stricter"),
            (|s| s["required"] = json!(["image", "mode"]), "x.mode: became required"),
            (|s| s["x-kubernetes-validations"] = json!([{"rule": "false"}]), "x: a new rule"),
        ];
        for (change, expected) in cases {
            let found = changed(change);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
        }
    }
}
