//! What the operator was told at its start and gives to everything it makes.

pub(crate) const SERVER_IMAGE: &str = "valkey/valkey:9.1";
pub(crate) const EXPORTER_IMAGE: &str = "oliver006/redis_exporter:v1.86.0";
pub(crate) const AGENT_IMAGE: &str = "valkey-operator:dev";

pub(crate) const NAMESPACE: &str = "valkey-operator-system";
pub(crate) const TRUST_DOMAIN: &str = "valkey.local";

/// What a spec leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Image of the servers.
    pub server_image: String,
    /// Image of the metrics exporters.
    pub exporter_image: String,
    /// Image that holds the agent: the operator's own.
    pub agent_image: String,
    /// The operator's own namespace, where the Secrets of roots are.
    pub namespace: String,
    /// First part of the identities in certificates.
    pub trust_domain: String,
    /// Clusters get certificates and an agent beside each server.
    pub sidecars: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server_image: SERVER_IMAGE.to_owned(),
            exporter_image: EXPORTER_IMAGE.to_owned(),
            agent_image: AGENT_IMAGE.to_owned(),
            namespace: NAMESPACE.to_owned(),
            trust_domain: TRUST_DOMAIN.to_owned(),
            sidecars: true,
        }
    }
}
