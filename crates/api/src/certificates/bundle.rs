//! `ValkeyCertificateBundle`: the authority of one cluster for one purpose.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterReference, Reference, Validity, two_thirds};

/// What an authority signs for.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum BundlePurpose {
    /// The channels between the operator and the agents.
    #[default]
    Mtls,
    /// Clients, replication and the bus of the servers.
    Tls,
}

/// How an authority is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
pub enum BundlePhase {
    /// The root it is to be signed by is not there, or cannot sign.
    WaitingForCA,
    /// One of its own Secrets is being written.
    WaitingForSecret,
    /// It signs.
    Issued,
    /// Another authority is taking its place.
    Rotating,
    /// It cannot sign; the message says why.
    Error,
}

/// When an authority is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotationPolicy {
    /// Replace it in time, and when the root above it changes. The annotation `valkey.io/rotate` works without it, too.
    #[serde(default = "yes")]
    pub auto_rotate: bool,
    /// How many percent of its life may be over before that.
    #[serde(default = "two_thirds")]
    #[schemars(range(min = 1, max = 95))]
    pub rotate_before_percent: u8,
    /// How long each step of a replacement lasts at least: a pod sees a changed Secret only once its kubelet has brought it there.
    #[serde(default = "two_minutes")]
    pub settle: Validity,
    /// Replace it at least so many days before its end, whatever the percentage says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3650))]
    pub renew_before_days: Option<u32>,
}

impl Default for RotationPolicy {
    fn default() -> Self {
        Self {
            auto_rotate: true,
            rotate_before_percent: two_thirds(),
            settle: two_minutes(),
            renew_before_days: None,
        }
    }
}

/// The authority of one cluster for one purpose, signed by a `ValkeyCA`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyCertificateBundle",
    plural = "valkeycertificatebundles",
    namespaced,
    status = "ValkeyCertificateBundleStatus",
    shortname = "vkcb",
    category = "valkey",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Purpose", type_ = "string", json_path = ".spec.purpose"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".status.expiresAt"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Thumbprint", type_ = "string", json_path = ".status.thumbprint", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("the name of a ValkeyCertificateBundle can have 63 characters at most"),
    validation = Rule::new("(has(self.spec.certSecretRef) ? self.spec.certSecretRef.name : 'internal-' + self.metadata.name + '-ca') != (has(self.spec.keySecretRef) ? self.spec.keySecretRef.name : 'internal-' + self.metadata.name + '-ca-key')")
        .message("certSecretRef and keySecretRef cannot be the same Secret: the first is for everybody who verifies, the second for nobody but the operator"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.clusterRef == oldSelf.clusterRef && self.purpose == oldSelf.purpose")
    .message("clusterRef and purpose cannot be changed: what was signed is for that cluster and that purpose; create another bundle"))]
#[x_kube(validation = Rule::new("has(self.certSecretRef) == has(oldSelf.certSecretRef) && (!has(self.certSecretRef) || self.certSecretRef == oldSelf.certSecretRef) && has(self.keySecretRef) == has(oldSelf.keySecretRef) && (!has(self.keySecretRef) || self.keySecretRef == oldSelf.keySecretRef)")
    .message("certSecretRef and keySecretRef cannot be changed: the authority would be left behind; create another bundle"))]
#[x_kube(validation = Rule::new("!has(self.rotationPolicy.renewBeforeDays) || self.rotationPolicy.renewBeforeDays < self.validForDays")
    .message("renewBeforeDays must be less than validForDays: otherwise every authority is too old when it is made"))]
pub struct ValkeyCertificateBundleSpec {
    /// The cluster it signs for, in the same namespace.
    pub cluster_ref: ClusterReference,
    /// The `ValkeyCA` it is signed by.
    #[serde(default = "the_root")]
    pub ca_ref: Reference,
    /// What it signs for. Cannot be changed.
    #[serde(default)]
    pub purpose: BundlePurpose,
    /// Secret for everybody who verifies, made by the operator: `ca_bundle.pem` (whom the members of the cluster trust), `ca.crt`
    /// (the roots above, for clients that trust those) and `tls.crt` (the chain). `internal-<name>-ca` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<Reference>,
    /// Secret with the authority's key, made by the operator and read by nobody else. `internal-<name>-ca-key` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_secret_ref: Option<Reference>,
    /// How many days the authority is valid; never longer than the root.
    #[serde(default = "a_year")]
    #[schemars(range(min = 1, max = 3650))]
    pub valid_for_days: u32,
    /// When it is replaced.
    #[serde(default)]
    pub rotation_policy: RotationPolicy,
}

fn yes() -> bool {
    true
}

fn two_minutes() -> Validity {
    Validity::minutes(2)
}

fn a_year() -> u32 {
    365
}

fn the_root() -> Reference {
    Reference::to(crate::names::ROOT_CA)
}

/// What was last seen of an authority. Empty fields are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyCertificateBundleStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How the authority is, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BundlePhase>,
    /// Why, as a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Names from the authority upwards, without the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// SHA-256 of the certificate by which members know the authority that signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    /// When it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Time>,
    /// When it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Counts what was published: whom to trust, and who signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<i64>,
    /// Everybody whom members trust, by SHA-256, the oldest first. More than one while an authority is being replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted: Vec<String>,
    /// Those who have not shown yet that they have what was last published, as `<binding>/<component>`; ten of them at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<String>,
    /// SHA-256 of the root that signed the authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_thumbprint: Option<String>,
    /// Value of the annotation `valkey.io/rotate` for which the authority was last replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_for: Option<String>,
    /// When something was last found to be other than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checked: Option<Time>,
    /// See the list of conditions and reasons in the documentation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
