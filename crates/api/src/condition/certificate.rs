//! What is said of certificates and of those who sign them.

use strum::{EnumIter, EnumMessage, IntoStaticStr};

/// Conditions of a ValkeyCA, a ValkeyCertificateBundle and a ValkeyCertificateBinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, EnumMessage, IntoStaticStr)]
pub enum CertificateCondition {
    /// The authority can sign, or every certificate is issued and stored.
    Ready,
}

/// Why a condition of one of these kinds has its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter, EnumMessage, IntoStaticStr)]
pub enum CertificateReason {
    /// Everything is issued, stored and valid.
    Issued,
    /// An authority or a certificate is being replaced; everybody who was trusted still is.
    Rotating,
    /// The root is valid, but most of its life is over, and it is not the operator's to replace.
    Expiring,
    /// What should be there is not written yet.
    Pending,
    /// The Secret that `caCertSecretRef` names does not exist or lacks keys; `missingKeys` tells which.
    WaitingForSecret,
    /// The ValkeyCA that `caRef` names does not exist or cannot sign.
    WaitingForCA,
    /// A ValkeyCertificateBundle that `bundleRef` names does not exist or cannot sign.
    WaitingForBundle,
    /// What stands in a Secret cannot be used: the message says everything that is wrong. What was in use before stays in use.
    Unusable,
    /// An object of a name that is needed belongs to something else. It is never taken over.
    NameCollision,
    /// The spec asks for something that cannot be issued; the message names the field.
    InvalidSpec,
    /// The Kubernetes API refused an object; the message is its own.
    ApplyRefused,
}
