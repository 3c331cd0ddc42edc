//! `ValkeyCA`: the root that the authorities of all clusters come from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Reference, Validity, two_thirds};

/// Where the root comes from.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
pub enum CaSource {
    /// The operator makes it, keeps it in a Secret and replaces it in time.
    #[default]
    Internal,
    /// Somebody puts it into a Secret, and replaces it there: a person, Vault, cert-manager.
    External,
}

/// Who issues in cert-manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuerReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// `ClusterIssuer`, `Issuer` (of the operator's namespace), or a kind of another group.
    #[serde(default = "cluster_issuer")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The group of that kind.
    #[serde(default = "cert_manager")]
    #[schemars(length(min = 1, max = 253))]
    pub group: String,
}

fn cluster_issuer() -> String {
    "ClusterIssuer".to_owned()
}

fn cert_manager() -> String {
    "cert-manager.io".to_owned()
}

/// A root that cert-manager makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertManager {
    /// Who issues it. It must be able to issue for authorities.
    pub issuer_ref: IssuerReference,
}

/// How a root is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
pub enum CaPhase {
    /// There is none yet.
    Pending,
    /// It signs.
    Ready,
    /// It is being replaced by a new one, and both are trusted.
    Rotating,
    /// It signs, but two thirds of its life are over, and it is not the operator who replaces it.
    Expiring,
    /// It cannot sign; the message says why.
    Error,
}

/// The authority at the root: the authorities of clusters (`ValkeyCertificateBundle`) are signed by it. Its Secret is in the
/// operator's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyCA",
    plural = "valkeycas",
    status = "ValkeyCAStatus",
    shortname = "vkca",
    category = "valkey",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".status.expiresAt"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Thumbprint", type_ = "string", json_path = ".status.thumbprint", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("the name of a ValkeyCA can have 63 characters at most: it stands in certificates"),
    validation = Rule::new("self.spec.source == oldSelf.spec.source || (has(self.spec.caCertSecretRef) ? self.spec.caCertSecretRef.name : self.metadata.name) != (has(oldSelf.spec.caCertSecretRef) ? oldSelf.spec.caCertSecretRef.name : oldSelf.metadata.name)")
        .message("a change of source needs another Secret in caCertSecretRef: the operator must not write over what somebody else put there, nor take it for its own"),
    validation = Rule::new("self.spec.source != 'Internal' || oldSelf.spec.source != 'Internal' || (has(self.spec.caCertSecretRef) ? self.spec.caCertSecretRef.name : self.metadata.name) == (has(oldSelf.spec.caCertSecretRef) ? oldSelf.spec.caCertSecretRef.name : oldSelf.metadata.name)")
        .message("caCertSecretRef of a root that the operator makes cannot be changed: everything signed so far would lose its root at once; use the annotation valkey.io/rotate for a new one"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.source != 'External' || has(self.caCertSecretRef) || has(self.certManager)")
    .message("source External needs caCertSecretRef (a Secret in the operator's namespace with tls.crt and tls.key) or certManager"))]
#[x_kube(validation = Rule::new("self.source == 'External' || !has(self.certManager)")
    .message("certManager needs source External: it is cert-manager that makes the root then"))]
pub struct ValkeyCASpec {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Where the root comes from.
    #[serde(default)]
    pub source: CaSource,
    /// Secret in the operator's namespace with the root: `tls.crt` and `tls.key`, and in `ca.crt` everybody who is to be trusted
    /// if that is more than `tls.crt` says. The object's own name if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_cert_secret_ref: Option<Reference>,
    /// Let cert-manager make the root: the operator asks it for a `Certificate` of the object's own name, in the operator's
    /// namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<CertManager>,
    /// How many days a root that the operator makes or asks for is valid.
    #[serde(default = "ten_years")]
    #[schemars(range(min = 1, max = 36500))]
    pub valid_for_days: u32,
    /// How many percent of its life may be over before the operator makes a new one.
    #[serde(default = "two_thirds")]
    #[schemars(range(min = 1, max = 95))]
    pub rotate_before_percent: u8,
    /// How long a new root is made known before anything is signed with it, and how long the one before stays known
    /// afterwards: whoever trusts the root has this long to hear of the new one, twice. Never longer than a tenth of a root's life.
    #[serde(default = "one_hour")]
    pub overlap: Validity,
}

fn ten_years() -> u32 {
    3650
}

fn one_hour() -> Validity {
    Validity::hours(1)
}

/// What was last seen of a root. Empty fields are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyCAStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How the root is, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<CaPhase>,
    /// Why, as a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The Secret it is in, in the operator's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// SHA-256 of the certificate that signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    /// When that certificate begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Time>,
    /// When that certificate is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Everybody who is trusted, by SHA-256, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted: Vec<String>,
    /// Value of the annotation `valkey.io/rotate` for which the root was last replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_for: Option<String>,
    /// Keys that the Secret lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_keys: Vec<String>,
    /// When the Secret was last found to be other than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checked: Option<Time>,
    /// See the list of conditions and reasons in the documentation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
