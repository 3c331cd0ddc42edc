//! The names, labels and owner that the Secrets of bundles and bindings carry.

use std::collections::BTreeMap;

use api::keys;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

/// An object that owns Secrets.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) generation: Option<i64>,
    cluster: String,
    api_version: String,
    kind: String,
}

impl Place {
    /// `None` for an object that never was in an API server.
    pub(super) fn of<K: Resource<DynamicType = ()>>(object: &K, cluster: &str) -> Option<Self> {
        let meta = object.meta();
        Some(Self {
            name: meta.name.clone()?,
            namespace: meta.namespace.clone()?,
            uid: meta.uid.clone()?,
            generation: meta.generation,
            cluster: cluster.to_owned(),
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
        })
    }

    /// Metadata of a Secret that goes with its owner.
    pub(super) fn owned(&self, name: &str) -> ObjectMeta {
        let labels = [
            (keys::NAME, keys::NAME_VALUE),
            (keys::MANAGED_BY, keys::MANAGED_BY_VALUE),
            (keys::CLUSTER, &self.cluster),
        ];
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            annotations: Some(BTreeMap::from([(keys::CR.to_owned(), self.cluster.clone())])),
            owner_references: Some(vec![OwnerReference {
                api_version: self.api_version.clone(),
                kind: self.kind.clone(),
                name: self.name.clone(),
                uid: self.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        }
    }
}
