//! The CRDs, one file each.

use serde_json::Value;

use crate::output::{Generated, YAML_HEADER};
use crate::yaml;

pub(crate) const FOLDER: &str = "deploy/crds";

pub(crate) fn files() -> Vec<Generated> {
    values()
        .into_iter()
        .map(|(name, crd)| Generated {
            path: format!("{FOLDER}/{name}.yaml"),
            content: format!("{YAML_HEADER}{}", yaml::print(&crd)),
        })
        .collect()
}

/// Every CRD by its plural name.
pub(crate) fn values() -> Vec<(String, Value)> {
    api::all_crds()
        .into_iter()
        .map(|crd| (crd.spec.names.plural.clone(), sorted(serde_json::to_value(&crd).unwrap_or_default())))
        .collect()
}

/// Keys in alphabetical order, whatever the JSON library does.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut pairs: Vec<(String, Value)> =
                fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            pairs.sort_by(|one, two| one.0.cmp(&two.0));
            Value::Object(pairs.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
