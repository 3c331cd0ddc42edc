//! Tests of the CRDs' rules without an API server: CEL rules here, types and patterns on a real one.

use kube_cel::{Validator, apply_defaults};
use serde_json::{Value, json};

use crate::cases::{self, Case};

fn schema() -> Value {
    let crds = crate::all_crds();
    let version = serde_json::to_value(&crds[0].spec.versions[0]).expect("should be JSON");
    version["schema"]["openAPIV3Schema"].clone()
}

fn object(case: &Case, spec: &Value) -> Value {
    json!({"apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyNode", "metadata": {"name": case.object_name}, "spec": spec})
}

/// What the rules say, as one text; `None` if they are content.
fn verdict(schema: &Value, case: &Case) -> Option<String> {
    let new = apply_defaults(schema, &object(case, &case.spec));
    let old = case.before.as_ref().map(|spec| apply_defaults(schema, &object(case, spec)));
    match Validator::new().validate(schema, &new, old.as_ref()) {
        Ok(()) => None,
        Err(errors) => Some(errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>().join("; ")),
    }
}

/// Refusals that come from a type, a length or a pattern of the schema and not from a rule.
fn is_schema_only(case: &Case) -> bool {
    case.refused.is_some_and(|part| !part.contains(' '))
}

#[test]
fn the_rules_accept_and_refuse_as_the_table_says() {
    let schema = schema();
    let mut checked = 0;
    for case in cases::valkey_node().iter().filter(|case| !is_schema_only(case)) {
        let said = verdict(&schema, case);
        match (case.refused, &said) {
            (None, None) => {}
            (Some(part), Some(said)) if said.contains(part) => {}
            _ => panic!("{}: expected {:?}, got {said:?}", case.name, case.refused),
        }
        checked += 1;
    }
    assert!(checked > 45, "only {checked} cases were checked");
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
    let schema = schema();
    let mut all = Vec::new();
    messages(&schema, &mut all);
    let said: Vec<String> = cases::valkey_node().iter().filter_map(|case| verdict(&schema, case)).collect();
    for message in all {
        assert!(said.iter().any(|said| said.contains(&message)), "no case breaks the rule {message:?}");
    }
}
