//! `ValkeyCertificateBinding`: the certificates of one party of a cluster.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BundlePurpose, ClusterReference, Reference, Validity, two_thirds};

/// Who shows a certificate.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::EnumIter,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum Component {
    /// A server, to its clients.
    Server,
    /// A server, to the servers it connects to.
    NodeClient,
    /// The agent beside a server.
    Sidecar,
    /// The exporter of metrics.
    Exporter,
    /// The operator.
    Operator,
}

/// How the certificates of a party are, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
pub enum BindingPhase {
    /// A bundle that should sign is not there, or cannot sign.
    WaitingForBundle,
    /// Every certificate is in its Secret.
    Applied,
    /// A certificate was replaced, and the one before it is still accepted.
    Rotating,
    /// A certificate cannot be issued or stored; the message says why.
    Error,
}

/// A certificate that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.secretName == oldSelf.secretName")
    .message("secretName cannot be changed: a valid key would be left behind; take the component out, delete its Secret, and add it again"))]
pub struct BoundCertificate {
    /// Who shows it. This decides what it may be used for and who it says it is.
    pub component: Component,
    /// The bundle that signs it.
    pub bundle_ref: Reference,
    /// The Secret it is put into, made by the operator, with `tls.crt`, `tls.key` and `ca.crt`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub secret_name: String,
    /// The pod it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub pod: Option<String>,
    /// DNS names it is for; the first label may be `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "hosts")]
    pub hosts: Vec<String>,
    /// Addresses it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "addresses")]
    pub addresses: Vec<IpAddr>,
    /// How long it is valid; never longer than the bundle's authority.
    #[serde(default)]
    #[schemars(schema_with = "super::validity::life")]
    pub validity: Validity,
}

fn hosts(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let name = r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    schemars::json_schema!({
        "type": "array", "maxItems": 32, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": name},
    })
}

fn addresses(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array", "maxItems": 16, "x-kubernetes-list-type": "set",
        "items": {
            "type": "string", "minLength": 2, "maxLength": 45,
            "x-kubernetes-validations": [{
                "rule": "isIP(self)",
                "message": "an address must be an IP address, for example 10.0.0.1; write a name into hosts",
            }],
        },
    })
}

/// The certificates of one party of a cluster, each in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "valkey.io",
    version = "v1alpha1",
    kind = "ValkeyCertificateBinding",
    plural = "valkeycertificatebindings",
    namespaced,
    status = "ValkeyCertificateBindingStatus",
    shortname = "vkbind",
    category = "valkey",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "For", type_ = "string", json_path = ".spec.certificates[*].component"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".status.expiresAt"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Thumbprints", type_ = "string", json_path = ".status.active[*].thumbprint", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("the name of a ValkeyCertificateBinding can have 63 characters at most"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.clusterRef == oldSelf.clusterRef")
    .message("clusterRef cannot be changed: what was signed is for that cluster; create another binding"))]
#[x_kube(validation = Rule::new("self.certificates.all(one, self.certificates.exists_one(other, other.secretName == one.secretName))")
    .message("each certificate needs a Secret of its own: secretName can be used once"))]
pub struct ValkeyCertificateBindingSpec {
    /// The cluster the party belongs to, in the same namespace.
    pub cluster_ref: ClusterReference,
    /// Its certificates, one for each component.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["component".into()]))]
    #[schemars(length(min = 1, max = 8))]
    pub certificates: Vec<BoundCertificate>,
    /// How many percent of its life may be over before a certificate is replaced.
    #[serde(default = "two_thirds")]
    #[schemars(range(min = 1, max = 95))]
    pub rotate_before_percent: u8,
    /// How long a certificate that was replaced is still accepted.
    #[serde(default = "one_hour")]
    pub grace: Validity,
}

fn one_hour() -> Validity {
    Validity::hours(1)
}

/// A certificate that is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveCertificate {
    /// Who shows it.
    pub component: Component,
    /// What its authority signs for.
    pub purpose: BundlePurpose,
    /// The bundle that signed it.
    pub bundle_ref: Reference,
    /// The Secret it is in.
    pub secret_name: String,
    /// Its SHA-256.
    pub thumbprint: String,
    /// When it begins.
    pub issued_at: Time,
    /// When it is over.
    pub expires_at: Time,
    /// Number of the publication of the bundle that its `ca.crt` comes from.
    pub trusts: i64,
    /// Number of the publication of the bundle under which it was signed.
    pub issued_under: i64,
}

/// A certificate that was replaced, and is still accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeprecatedCertificate {
    /// Who showed it.
    pub component: Component,
    /// Its SHA-256.
    pub thumbprint: String,
    /// Until when it is accepted.
    pub accept_until: Time,
}

/// What was last seen of the certificates of a party. Empty fields are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyCertificateBindingStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How the certificates are, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BindingPhase>,
    /// Why, as a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the first of them is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Those that are used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["component".into()]))]
    pub active: Vec<ActiveCertificate>,
    /// Those that were replaced and are still accepted, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub deprecated: Vec<DeprecatedCertificate>,
    /// Value of the annotation `valkey.io/rotate` for which the certificates were last replaced.
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
