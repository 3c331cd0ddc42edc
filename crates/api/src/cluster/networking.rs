//! How clients reach a cluster.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A server's certificate in a Secret of the cluster's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerCertificate {
    /// Name of a Secret with the keys `tls.crt`, `tls.key` and `ca.crt`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub secret_name: String,
}

/// The certificates of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsCertificates {
    /// What every server presents.
    pub server: ServerCertificate,
}

/// TLS for clients, for replication and between the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkingTls {
    /// Where the certificates are.
    pub certificates: TlsCertificates,
}

/// How clients reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Networking {
    /// Speak TLS, and nothing else. A client may show a certificate, but need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<NetworkingTls>,
}
