//! Objects that are already stored must stay valid: a CRD may only grow, and what it adds must have a default or be
//! optional. The schemas that were promised are kept beside this program.

mod schema;

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
        problems.extend(broken(&promised, &crd, &name));
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
        if path.exists() && !broken(&read(&path)?, &crd, &name).is_empty() {
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

/// What something valid before could not rely on any more.
fn broken(before: &Value, after: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["/spec/scope", "/spec/group", "/spec/names/plural", "/spec/names/kind"] {
        let of = |crd: &Value| crd.pointer(key).cloned().unwrap_or_default();
        if of(before) != of(after) {
            found.push(format!("{path}: {key} changed from {} to {}", of(before), of(after)));
        }
    }
    for promised in versions(before) {
        let name = promised["name"].as_str().unwrap_or_default();
        let path = format!("{path} {name}");
        let Some(now) = versions(after).find(|version| version["name"] == name) else {
            found.push(format!("{path}: the version is gone"));
            continue;
        };
        if promised["served"] == true && now["served"] != true {
            found.push(format!("{path}: the version is not served any more"));
        }
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        schema::compare(&schema(promised), &schema(now), &path, &mut found);
    }
    found
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd["spec"]["versions"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version(name: &str, max: u32) -> Value {
        let schema = json!({"type": "object", "properties": {"image": {"type": "string", "maxLength": max}}});
        json!({"name": name, "served": true, "schema": {"openAPIV3Schema": schema}})
    }

    fn base() -> Value {
        json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", 10), version("v2", 10)],
        }})
    }

    fn changed(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut after = base();
        change(&mut after);
        broken(&base(), &after, "things")
    }

    #[test]
    fn another_version_or_order_of_versions_is_fine() {
        assert!(changed(|_| ()).is_empty());
        let more = json!([version("v3", 5), version("v2", 10), version("v1", 20)]);
        assert!(changed(|crd| crd["spec"]["versions"] = more).is_empty());
    }

    #[test]
    fn taking_away_is_found() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 7] = [
            (|crd| crd["spec"]["scope"] = json!("Cluster"), "things: /spec/scope changed"),
            (|crd| crd["spec"]["group"] = json!("example.org"), "things: /spec/group changed"),
            (|crd| crd["spec"]["names"]["plural"] = json!("stuff"), "things: /spec/names/plural changed"),
            (|crd| crd["spec"]["names"]["kind"] = json!("Stuff"), "things: /spec/names/kind changed"),
            (|crd| crd["spec"]["versions"] = json!([version("v2", 10)]), "things v1: the version is gone"),
            (
                |crd| crd["spec"]["versions"][1]["served"] = json!(false),
                "things v2: the version is not served",
            ),
            (
                |crd| crd["spec"]["versions"][1] = version("v2", 5),
                "things v2.image: maxLength became stricter",
            ),
        ];
        for (change, expected) in cases {
            let found = changed(change);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
        }
    }
}
