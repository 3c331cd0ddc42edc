//! The objects of a node, built from its validated spec. Everything here is pure and cannot fail.

mod claim;
mod config_map;
mod meta;
mod pod;
mod service;
mod workload;

use serde_json::{Value, json};

pub(super) use claim::claim;
pub(super) use config_map::config_map;
pub(super) use meta::Identity;
pub(super) use pod::template;
pub(super) use service::service;
pub(super) use workload::workload;

/// The kinds of objects a node consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub(super) enum Kind {
    PersistentVolumeClaim,
    ConfigMap,
    Service,
    StatefulSet,
    Deployment,
    Pod,
}

impl Kind {
    /// As users write it.
    pub(super) fn name(self) -> &'static str {
        self.into()
    }
}

/// An object as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) body: Value,
}

impl Wanted {
    /// Finish an object: its own hash goes into an annotation, because a field that is no longer wanted can only be
    /// noticed by what was applied before.
    fn new<K>(kind: Kind, object: &K) -> Self
    where
        K: k8s_openapi::Resource
            + k8s_openapi::Metadata<Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>
            + serde::Serialize,
    {
        // These types are plain data with string keys: they always have a JSON form.
        let mut body = serde_json::to_value(object).unwrap_or_default();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("status");
        }
        let digest = kit::digest::of_value(&body);
        body["metadata"]["annotations"][api::keys::APPLIED] = json!(digest);
        Self { kind, name: object.metadata().name.clone().unwrap_or_default(), body }
    }

    /// The hash in the annotation.
    pub(super) fn digest(&self) -> Option<&str> {
        self.body["metadata"]["annotations"][api::keys::APPLIED].as_str()
    }
}
