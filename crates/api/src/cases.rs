//! Specs that must be accepted or refused, each with what the user is told. The same tables run against the rules in
//! unit tests and against a real API server.

mod certificates;
mod cluster;
mod cluster_placement;
mod cluster_users;
mod node;
mod shared;

use serde_json::{Value, json};

/// One row of a table.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows.
    pub name: &'static str,
    /// The kind it is about.
    pub kind: &'static str,
    /// The object's name.
    pub object_name: String,
    /// The spec before an update; `None` for a creation.
    pub before: Option<Value>,
    /// The spec to judge.
    pub spec: Value,
    /// Part of the message if it must be refused. A single word is part of a field's path: the refusal comes from a
    /// type, a bound or a pattern of the schema and not from a rule.
    pub refused: Option<&'static str>,
}

impl Case {
    /// The object with this spec, as a user would write it.
    pub fn object(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": "valkey.io/v1alpha1",
            "kind": self.kind,
            "metadata": {"name": self.object_name},
            "spec": spec,
        })
    }

    /// Whether the refusal comes from a type, a bound or a pattern of the schema.
    pub fn is_schema_only(&self) -> bool {
        self.refused.is_some_and(|part| !part.contains(' '))
    }
}

/// Every row for every kind.
pub fn all() -> Vec<Case> {
    [valkey_node(), valkey_cluster(), certificates()].concat()
}

/// Every row for `ValkeyNode`.
pub fn valkey_node() -> Vec<Case> {
    node::cases()
}

/// Every row for `ValkeyCluster`.
pub fn valkey_cluster() -> Vec<Case> {
    [cluster::cases(), cluster_placement::cases(), cluster_users::cases()].concat()
}

/// Every row for the kinds of certificates.
pub fn certificates() -> Vec<Case> {
    certificates::cases()
}

/// Makes rows for one kind: each spec is the smallest one plus what the row is about.
struct Rows {
    kind: &'static str,
    smallest: Value,
}

impl Rows {
    fn with(&self, more: &Value) -> Value {
        let mut spec = self.smallest.clone();
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        spec
    }

    fn create(&self, name: &'static str, spec: &Value, refused: Option<&'static str>) -> Case {
        let spec = self.with(spec);
        Case { name, kind: self.kind, object_name: "case".to_owned(), before: None, spec, refused }
    }

    fn update(
        &self,
        name: &'static str,
        before: &Value,
        spec: &Value,
        refused: Option<&'static str>,
    ) -> Case {
        Case { before: Some(self.with(before)), ..self.create(name, spec, refused) }
    }

    fn named(&self, name: &'static str, object_name: String, refused: Option<&'static str>) -> Case {
        Case { object_name, ..self.create(name, &json!({}), refused) }
    }
}
