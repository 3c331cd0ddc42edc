//! Who a cluster is, and the names, labels, annotations and owner every object of it carries.

use std::collections::BTreeMap;

use api::{ValkeyCluster, keys};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;

/// A cluster's place, taken from its metadata once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) generation: Option<i64>,
}

impl Identity {
    /// `None` for an object that never was in an API server.
    pub(crate) fn of(cluster: &ValkeyCluster) -> Option<Self> {
        let meta = cluster.meta();
        Some(Self {
            name: meta.name.clone()?,
            namespace: meta.namespace.clone()?,
            uid: meta.uid.clone()?,
            generation: meta.generation,
        })
    }

    /// What selects every pod of the cluster.
    pub(crate) fn selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (keys::NAME.to_owned(), keys::NAME_VALUE.to_owned()),
            (keys::CLUSTER.to_owned(), self.name.clone()),
        ])
    }

    /// Labels of the objects that belong to the cluster as a whole.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.insert(keys::INSTANCE.to_owned(), self.name.clone());
        labels.insert(keys::MANAGED_BY.to_owned(), keys::MANAGED_BY_VALUE.to_owned());
        labels
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: ValkeyCluster::api_version(&()).into_owned(),
            kind: ValkeyCluster::kind(&()).into_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Metadata of an object that is deleted with its cluster.
    pub(super) fn owned(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels()),
            annotations: Some(BTreeMap::from([(keys::CR.to_owned(), self.name.clone())])),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        }
    }
}
