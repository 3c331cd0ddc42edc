//! Tests of the CRDs' rules without an API server: CEL rules here, types and patterns on a real one.

use std::collections::BTreeMap;

use kube_cel::{Validator, apply_defaults};
use serde_json::Value;

use crate::cases::{self, Case};
use crate::{ValkeyCA, ValkeyCertificateBinding, ValkeyCertificateBundle, ValkeyCluster, ValkeyNode};

/// The schema of every kind by its name.
fn schemas() -> BTreeMap<String, Value> {
    crate::all_crds()
        .into_iter()
        .map(|crd| {
            let version = serde_json::to_value(&crd.spec.versions[0]).expect("should be JSON");
            (crd.spec.names.kind, version["schema"]["openAPIV3Schema"].clone())
        })
        .collect()
}

/// What the rules say, as one text; `None` if they are content.
fn verdict(schema: &Value, case: &Case) -> Option<String> {
    let new = apply_defaults(schema, &case.object(&case.spec));
    let old = case.before.as_ref().map(|spec| apply_defaults(schema, &case.object(spec)));
    match Validator::new().validate(schema, &new, old.as_ref()) {
        Ok(()) => None,
        Err(errors) => Some(errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>().join("; ")),
    }
}

#[test]
fn the_rules_accept_and_refuse_as_the_table_says() {
    let schemas = schemas();
    let mut checked: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases::all().iter().filter(|case| !case.is_schema_only()) {
        let said = verdict(&schemas[case.kind], case);
        match (case.refused, &said) {
            (None, None) => {}
            (Some(part), Some(said)) if said.contains(part) => {}
            _ => panic!("{}, {}: expected {:?}, got {said:?}", case.kind, case.name, case.refused),
        }
        *checked.entry(case.kind).or_default() += 1;
    }
    for kind in schemas.keys() {
        let checked = checked.get(kind.as_str()).copied().unwrap_or_default();
        // Kinds for certificates have few rules.
        let enough = if ["ValkeyNode", "ValkeyCluster"].contains(&kind.as_str()) { 45 } else { 8 };
        assert!(checked > enough, "only {checked} cases of {kind} were checked");
    }
}

#[test]
fn every_rule_says_something_and_is_broken_by_some_case() {
    fn messages(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(fields) => {
                for rule in
                    fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
                {
                    found.push(rule["message"].as_str().expect("should have a message").to_owned());
                }
                fields.values().for_each(|field| messages(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
            _ => {}
        }
    }
    for (kind, schema) in schemas() {
        let mut all = Vec::new();
        messages(&schema, &mut all);
        let cases = cases::all();
        let said: Vec<String> =
            cases.iter().filter(|case| case.kind == kind).filter_map(|case| verdict(&schema, case)).collect();
        for message in all {
            assert!(
                said.iter().any(|said| said.contains(&message)),
                "no case breaks the rule {message:?} of {kind}"
            );
        }
    }
}

#[test]
fn what_is_accepted_can_be_read() {
    for case in cases::all().into_iter().filter(|case| case.refused.is_none()) {
        let object = case.object(&case.spec);
        let read = match case.kind {
            "ValkeyNode" => serde_json::from_value::<ValkeyNode>(object).map(drop),
            "ValkeyCA" => serde_json::from_value::<ValkeyCA>(object).map(drop),
            "ValkeyCertificateBundle" => serde_json::from_value::<ValkeyCertificateBundle>(object).map(drop),
            "ValkeyCertificateBinding" => {
                serde_json::from_value::<ValkeyCertificateBinding>(object).map(drop)
            }
            _ => serde_json::from_value::<ValkeyCluster>(object).map(drop),
        };
        assert!(read.is_ok(), "{}, {}: {read:?}", case.kind, case.name);
    }
}
