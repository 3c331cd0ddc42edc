//! Where a node keeps its data, with the rules that protect what is already stored.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rule for a spec with a field `persistence`: it comes and goes only where it stands for no volume.
pub(crate) const PERSISTENCE_STAYS: &str = "has(self.persistence) == has(oldSelf.persistence) || (has(self.persistence) ? ((has(self.persistence.mode) ? self.persistence.mode : (has(self.persistence.size) ? 'enabled' : 'disabled')) == 'disabled') : ((has(oldSelf.persistence.mode) ? oldSelf.persistence.mode : (has(oldSelf.persistence.size) ? 'enabled' : 'disabled')) == 'disabled'))";

/// Who provides the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PersistenceMode {
    /// Data lives as long as the pod.
    Disabled,
    /// The operator makes a claim `valkey-<node>-data` and keeps it when the pod goes.
    Enabled,
    /// The claim named by `existingClaim` is used and never changed.
    External,
}

/// What happens to the operator's own claim when the node is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReclaimPolicy {
    /// The claim and its data stay; a node of the same name finds them again.
    #[default]
    Retain,
    /// The claim is deleted with the node.
    Delete,
}

/// Storage of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.mode) || self.mode != 'enabled' || has(self.size)")
    .message("size is required when mode is enabled, for example size: 10Gi"))]
#[x_kube(validation = Rule::new("(has(self.mode) && self.mode == 'external') == has(self.existingClaim)")
    .message("existingClaim goes with mode: external, and mode: external needs existingClaim"))]
#[x_kube(validation = Rule::new("!has(self.mode) || self.mode == 'enabled' || !has(self.size)")
    .message("size is only for mode: enabled; remove it or change the mode"))]
#[x_kube(validation = Rule::new("!has(self.storageClassName) || has(self.size)")
    .message("storageClassName is only for mode: enabled, together with size"))]
#[x_kube(validation = Rule::new("!has(self.reclaimPolicy) || has(self.size)")
    .message("reclaimPolicy is only for mode: enabled: an external claim is never deleted, and without a claim there is nothing to keep"))]
#[x_kube(validation = Rule::new(
    "(has(self.mode) ? self.mode : (has(self.size) ? 'enabled' : 'disabled')) == (has(oldSelf.mode) ? oldSelf.mode : (has(oldSelf.size) ? 'enabled' : 'disabled'))")
    .message("mode cannot be changed: the data would be left behind; create a new one and let it replicate"))]
#[x_kube(validation = Rule::new("!has(self.size) || !has(oldSelf.size) || quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0")
    .message("size can only grow: a volume cannot shrink without losing data"))]
#[x_kube(validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)")
    .message("storageClassName cannot be changed: a volume does not move between classes"))]
#[x_kube(validation = Rule::new("!has(self.existingClaim) || !has(oldSelf.existingClaim) || self.existingClaim == oldSelf.existingClaim")
    .message("existingClaim cannot be changed: the data would be left behind; create a new one with the other claim"))]
pub struct Persistence {
    /// `disabled`, `enabled` or `external`. Without it, a given `size` means `enabled`, and no `size` means `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PersistenceMode>,
    /// Size of the volume, for example `10Gi`. It may grow later, never shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))")
        .message("size must be a positive quantity, for example 10Gi"))]
    pub size: Option<String>,
    /// Storage class of the volume; Kubernetes' default class if not given, none at all if empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// The claim to use with `mode: external`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub existing_claim: Option<String>,
    /// What happens to the claim when the node is deleted; `Retain` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<ReclaimPolicy>,
}

impl Persistence {
    /// The mode that was meant: see [`Persistence::mode`].
    pub fn effective_mode(&self) -> PersistenceMode {
        match (self.mode, &self.size) {
            (Some(mode), _) => mode,
            (None, Some(_)) => PersistenceMode::Enabled,
            (None, None) => PersistenceMode::Disabled,
        }
    }
}
