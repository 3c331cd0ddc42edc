//! Certificates as resources: who signs (`ValkeyCA`), who signs for one cluster (`ValkeyCertificateBundle`), and what was
//! signed (`ValkeyCertificateBinding`).

mod binding;
mod bundle;
mod ca;
mod validity;

pub use binding::{
    ActiveCertificate, BindingPhase, BoundCertificate, Component, DeprecatedCertificate,
    ValkeyCertificateBinding, ValkeyCertificateBindingSpec, ValkeyCertificateBindingStatus,
};
pub use bundle::{
    BundlePhase, BundlePurpose, RotationPolicy, ValkeyCertificateBundle, ValkeyCertificateBundleSpec,
    ValkeyCertificateBundleStatus,
};
pub use ca::{CaPhase, CaSource, CertManager, IssuerReference, ValkeyCA, ValkeyCASpec, ValkeyCAStatus};
pub use validity::Validity;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Another object, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

/// A `ValkeyCluster`, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReference {
    /// Its name.
    #[schemars(length(min = 1, max = 38), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

impl Reference {
    /// To an object of this name.
    pub fn to(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// Certificates are replaced when two thirds of their life are over: whoever is late has the last third.
fn two_thirds() -> u8 {
    66
}
