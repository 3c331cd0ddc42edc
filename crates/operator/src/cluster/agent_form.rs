//! The agent of a node's pod: which one it is, and whether it runs beside the server. A pod keeps what it was made with until it is
//! restarted for another reason: an operator that was replaced restarts nothing. What it was made with is read off the node itself.

use api::{ValkeyNode, names};
use serde_json::Value;

/// The agent of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentForm {
    /// The image that it is in.
    pub(super) image: String,
    /// Where it reaches the operator, if it runs beside the server.
    pub(super) operator: Option<String>,
}

/// How the sidecar is told where the operator is.
pub(super) const OPERATOR_FLAG: &str = "--operator";

impl AgentForm {
    /// What the pod of a node was made with.
    pub(super) fn of(node: &ValkeyNode) -> Option<Self> {
        let template = node.spec.pod_template.as_ref()?.spec.as_ref()?;
        let containers = template["initContainers"].as_array()?;
        let called = |name: &str| containers.iter().find(|one| one["name"].as_str() == Some(name));
        let image = called(names::INIT_CONTAINER)?["image"].as_str()?.to_owned();
        Some(Self { image, operator: called(names::SIDECAR_CONTAINER).and_then(operator_of) })
    }
}

fn operator_of(sidecar: &Value) -> Option<String> {
    let mut words = sidecar["command"].as_array()?.iter().filter_map(Value::as_str);
    words.find(|word| *word == OPERATOR_FLAG)?;
    words.next().map(str::to_owned)
}
