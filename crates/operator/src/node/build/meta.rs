//! Who a node is, and the names, labels, annotations and owner every object of it carries.

use std::collections::BTreeMap;

use api::keys;
use api::{ValkeyNode, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;

/// A node's place in the cluster, taken from its metadata once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) generation: Option<i64>,
    /// The resource a user asked for: the owner's name, or the node's own.
    pub(crate) cr: String,
    /// Another controller owns this node and authorises its restarts.
    pub(crate) has_owner: bool,
    inherited_labels: BTreeMap<String, String>,
}

impl Identity {
    /// `None` for an object that never was in an API server.
    pub(crate) fn of(node: &ValkeyNode) -> Option<Self> {
        let meta = node.meta();
        let name = meta.name.clone()?;
        let owner = meta
            .owner_references
            .iter()
            .flatten()
            .find(|owner| owner.controller == Some(true))
            .map(|owner| owner.name.clone());
        Some(Self {
            namespace: meta.namespace.clone()?,
            uid: meta.uid.clone()?,
            generation: meta.generation,
            has_owner: owner.is_some(),
            cr: owner.unwrap_or_else(|| name.clone()),
            inherited_labels: meta
                .labels
                .iter()
                .flatten()
                .filter(|(key, _)| key.starts_with(keys::OWN_PREFIX))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            name,
        })
    }

    /// What the workload and the Service select pods by.
    pub(crate) fn selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (keys::NAME.to_owned(), keys::NAME_VALUE.to_owned()),
            (keys::INSTANCE.to_owned(), self.name.clone()),
        ])
    }

    /// Labels of every object, the pod among them.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.inherited_labels.clone();
        labels.extend(self.selector());
        labels.insert(keys::MANAGED_BY.to_owned(), keys::MANAGED_BY_VALUE.to_owned());
        labels
    }

    /// Annotations of every object.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(keys::CR.to_owned(), self.cr.clone())])
    }

    /// The reference by which Kubernetes deletes an object with its node.
    pub(crate) fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: ValkeyNode::api_version(&()).into_owned(),
            kind: ValkeyNode::kind(&()).into_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Metadata of an object that is deleted with its node.
    pub(super) fn owned(&self, name: String) -> ObjectMeta {
        ObjectMeta { owner_references: Some(vec![self.owner()]), ..self.unowned(name) }
    }

    /// Metadata of an object that outlives its node.
    pub(super) fn unowned(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels()),
            annotations: Some(self.annotations()),
            ..ObjectMeta::default()
        }
    }

    /// Name of the workload, the Service and the ConfigMap.
    pub(crate) fn workload_name(&self) -> String {
        names::workload(&self.name)
    }
}
