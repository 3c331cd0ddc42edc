//! The volume claim of a node with `persistence.mode: enabled`.

use std::collections::BTreeMap;

use api::names;
use api::node::ReclaimPolicy;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::super::validate::OwnClaim;
use super::{Identity, Kind, Wanted};

/// The claim has an owner only if the user asked for its deletion: with an owner, deleting the node (or its namespace's
/// garbage collection going wrong) would take the data along.
pub(crate) fn claim(identity: &Identity, own: &OwnClaim, size: &str) -> Wanted {
    let name = names::data_claim(&identity.name);
    let claim = PersistentVolumeClaim {
        metadata: match own.reclaim_policy {
            ReclaimPolicy::Retain => identity.unowned(name),
            ReclaimPolicy::Delete => identity.owned(name),
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: own.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), Quantity(size.to_owned()))])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    };
    Wanted::new(Kind::PersistentVolumeClaim, &claim)
}
