//! What the operator was told at its start and gives to everything it makes.

pub(crate) const SERVER_IMAGE: &str = "valkey/valkey:9.1";
pub(crate) const EXPORTER_IMAGE: &str = "oliver006/redis_exporter:v1.86.0";
pub(crate) const AGENT_IMAGE: &str = "valkey-operator:dev";

/// Images for what a spec leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Image of the servers.
    pub server_image: String,
    /// Image of the metrics exporters.
    pub exporter_image: String,
    /// Image that holds the agent: the operator's own.
    pub agent_image: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server_image: SERVER_IMAGE.to_owned(),
            exporter_image: EXPORTER_IMAGE.to_owned(),
            agent_image: AGENT_IMAGE.to_owned(),
        }
    }
}
