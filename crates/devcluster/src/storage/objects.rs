//! The Kubernetes objects of our storage: read into what the plan needs, and written for what it decides.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    LocalVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::plan::{Claim, ClaimName, Phase, Size, Volume};
use super::quantity::bytes;

/// The default class of the local cluster.
pub const STORAGE_CLASS: &str = "standard";
/// Who we are to Kubernetes.
pub const PROVISIONER: &str = "devcluster.valkey.io/loop";
/// Keeps a volume's object until its disk has been dealt with.
pub(super) const FINALIZER: &str = "devcluster.valkey.io/disk";

const ASKED_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The class that claims get when they name none.
pub(super) fn storage_class() -> StorageClass {
    StorageClass {
        metadata: ObjectMeta {
            name: Some(STORAGE_CLASS.into()),
            annotations: Some(BTreeMap::from([(IS_DEFAULT.into(), "true".into())])),
            ..ObjectMeta::default()
        },
        provisioner: PROVISIONER.into(),
        allow_volume_expansion: Some(true),
        reclaim_policy: Some("Delete".into()),
        volume_binding_mode: Some("WaitForFirstConsumer".into()),
        ..StorageClass::default()
    }
}

/// A claim, when Kubernetes has asked us for its volume. Raw devices and copies of other volumes are not on offer.
pub(super) fn claim(object: &PersistentVolumeClaim) -> Option<Claim> {
    let spec = object.spec.as_ref()?;
    let annotations = object.annotations();
    let raw = spec.volume_mode.as_deref() == Some("Block");
    let copy = spec.data_source.is_some() || spec.data_source_ref.is_some();
    if annotations.get(ASKED_PROVISIONER).is_none_or(|name| name != PROVISIONER) || raw || copy {
        return None;
    }
    let status = object.status.as_ref();
    let is_bound = status.and_then(|status| status.phase.as_deref()) == Some("Bound");
    let capacity = status.and_then(|status| storage(status.capacity.as_ref())).map(|size| size.bytes);
    Some(Claim {
        name: ClaimName { namespace: object.namespace()?, name: object.name_any(), uid: object.uid()? },
        class: spec.storage_class_name.clone().unwrap_or_default(),
        requested: storage(spec.resources.as_ref()?.requests.as_ref())?,
        access_modes: spec.access_modes.clone().unwrap_or_default(),
        selected_node: annotations.get(SELECTED_NODE).cloned(),
        volume: spec.volume_name.clone().filter(|name| !name.is_empty()),
        capacity: capacity.filter(|_| is_bound),
        being_deleted: object.metadata.deletion_timestamp.is_some(),
    })
}

/// A volume, when we made it.
pub(super) fn volume(object: &PersistentVolume) -> Option<Volume> {
    let spec = object.spec.as_ref()?;
    if object.annotations().get(PROVISIONED_BY).is_none_or(|name| name != PROVISIONER) {
        return None;
    }
    let phase = match object.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Bound") => Phase::Bound,
        Some("Released" | "Failed") => Phase::Released,
        _ => Phase::Free,
    };
    let being_deleted = object.metadata.deletion_timestamp.is_some();
    Some(Volume {
        name: object.name_any(),
        capacity: storage(spec.capacity.as_ref())?,
        phase,
        retain: spec.persistent_volume_reclaim_policy.as_deref() != Some("Delete"),
        being_deleted,
        let_go: being_deleted && !object.finalizers().iter().any(|name| name == FINALIZER),
    })
}

/// The volume for a claim, on the disk mounted at `path`.
pub(super) fn new_volume(claim: &Claim, class: &StorageClass, node: &str, path: &Path) -> PersistentVolume {
    let on_node = NodeSelectorRequirement {
        key: HOSTNAME.into(),
        operator: "In".into(),
        values: Some(vec![node.to_owned()]),
    };
    let terms = NodeSelectorTerm { match_expressions: Some(vec![on_node]), ..NodeSelectorTerm::default() };
    let for_claim = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("PersistentVolumeClaim".into()),
        namespace: Some(claim.name.namespace.clone()),
        name: Some(claim.name.name.clone()),
        uid: Some(claim.name.uid.clone()),
        ..ObjectReference::default()
    };
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(claim.name.volume()),
            annotations: Some(BTreeMap::from([(PROVISIONED_BY.into(), PROVISIONER.into())])),
            finalizers: Some(vec![FINALIZER.into()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity: Some(BTreeMap::from([("storage".into(), Quantity(claim.requested.text.clone()))])),
            access_modes: Some(claim.access_modes.clone()),
            claim_ref: Some(for_claim),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            storage_class_name: Some(claim.class.clone()),
            volume_mode: Some("Filesystem".into()),
            local: Some(LocalVolumeSource { path: path.display().to_string(), fs_type: None }),
            node_affinity: Some(VolumeNodeAffinity {
                required: Some(NodeSelector { node_selector_terms: vec![terms] }),
            }),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// The change to a volume whose disk has grown.
pub(super) fn grown_volume(size: &Size) -> Value {
    json!({ "spec": { "capacity": { "storage": size.text } } })
}

/// The change to a claim's status while its disk grows.
pub(super) fn growing_claim(size: &Size, now: Timestamp) -> Value {
    json!({ "status": {
        "allocatedResources": { "storage": size.text },
        "allocatedResourceStatuses": { "storage": "ControllerResizeInProgress" },
        "conditions": [{ "type": "Resizing", "status": "True", "lastTransitionTime": now.to_string() }],
    } })
}

/// The change to a claim's status once its disk has grown: the conditions of the growth go with it.
pub(super) fn grown_claim(size: &Size) -> Value {
    json!({ "status": {
        "capacity": { "storage": size.text },
        "allocatedResources": { "storage": size.text },
        "allocatedResourceStatuses": null,
        "conditions": null,
    } })
}

fn storage(quantities: Option<&BTreeMap<String, Quantity>>) -> Option<Size> {
    let text = quantities?.get("storage")?.0.clone();
    let bytes = bytes(&text).ok()?;
    Some(Size { text, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim_object() -> Value {
        json!({
            "metadata": {
                "namespace": "default", "name": "data", "uid": "1",
                "annotations": { ASKED_PROVISIONER: PROVISIONER, SELECTED_NODE: "node-1" },
            },
            "spec": {
                "storageClassName": "standard",
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        })
    }

    fn read(object: Value) -> Option<Claim> {
        claim(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn only_claims_meant_for_us_are_read() {
        assert_eq!(read(claim_object()).unwrap().selected_node.as_deref(), Some("node-1"));
        let mut other = claim_object();
        other["metadata"]["annotations"][ASKED_PROVISIONER] = json!("somebody.else");
        assert_eq!(read(other), None);
        let mut raw = claim_object();
        raw["spec"]["volumeMode"] = json!("Block");
        assert_eq!(read(raw), None);
    }

    #[test]
    fn a_capacity_counts_once_the_claim_is_bound() {
        let mut object = claim_object();
        object["status"] = json!({ "phase": "Pending", "capacity": { "storage": "1Gi" } });
        assert_eq!(read(object.clone()).unwrap().capacity, None);
        object["status"]["phase"] = json!("Bound");
        assert_eq!(read(object).unwrap().capacity, Some(1 << 30));
    }

    #[test]
    fn a_new_volume_is_bound_to_its_claim_and_node_and_is_recognised() {
        let claim = read(claim_object()).unwrap();
        let object = new_volume(&claim, &storage_class(), "node-1", Path::new("/disks/pvc-1/mount"));
        let volume = volume(&object).unwrap();
        assert_eq!(volume.name, "pvc-1");
        assert!(!volume.retain);
        let json = serde_json::to_value(&object).unwrap();
        assert_eq!(json["spec"]["claimRef"]["uid"], "1");
        assert_eq!(json["spec"]["local"]["path"], "/disks/pvc-1/mount");
        let term = &json["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
        assert_eq!(term["matchExpressions"][0]["values"][0], "node-1");
    }
}
