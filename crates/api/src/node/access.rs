//! How the operator authenticates to a node's server: references to Secrets, never values.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// One key of a Secret in the node's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in its data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// A client certificate in a Secret of type `kubernetes.io/tls` (keys `tls.crt` and `tls.key`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificate {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
}

/// How the operator verifies the server and shows itself to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsAccess {
    /// The certificate authorities (PEM, several allowed) that the server's certificate must chain to.
    pub ca: SecretKey,
    /// The certificate to present, if the server asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<ClientCertificate>,
    /// The name the server's certificate must carry; the pod's address if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub server_name: Option<String>,
}

/// How the operator reaches the server of a node. Without it, it connects in plain text and without a password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.user) || has(self.passwordSecretRef)")
    .message("user needs passwordSecretRef: name the Secret that holds its password"))]
pub struct Access {
    /// The ACL user; `default` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub user: Option<String>,
    /// Where the user's password is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret_ref: Option<SecretKey>,
    /// Speak TLS. Nothing is ever sent in plain text while this is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsAccess>,
}
