//! The container that turns a server's figures into metrics.

use k8s_openapi::api::core::v1::{ResourceRequirements, SecurityContext};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// The container `metrics-exporter` beside each server, on port 9121. It is there unless it is switched off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exporter {
    /// Whether the container runs.
    #[serde(default = "super::yes")]
    pub enabled: bool,
    /// Image of the exporter; the operator's default if not given.
    #[serde(default, deserialize_with = "crate::absent::if_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^\S*$"))]
    pub image: Option<String>,
    /// Requests and limits of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Security settings of the container; those of the server's container if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// Arguments added to the operator's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub args: Vec<String>,
}

impl Default for Exporter {
    fn default() -> Self {
        Self { enabled: true, image: None, resources: None, security_context: None, args: Vec::new() }
    }
}
