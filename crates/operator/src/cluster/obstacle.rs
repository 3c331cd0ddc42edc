//! What keeps a node from becoming what it should be, in the words of its own conditions. Only what waiting does not mend
//! counts: such words stay the same for as long as their cause does.

use api::condition::{ClusterReason, NodeCondition, NodeReason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::observe::ObservedNode;

/// Reasons for which a pod will not become ready by waiting.
const STUCK: [NodeReason; 6] = [
    NodeReason::CrashLooping,
    NodeReason::ImagePullFailed,
    NodeReason::Unschedulable,
    NodeReason::ContainerCreationFailed,
    NodeReason::PodFailed,
    NodeReason::PodCreationFailed,
];

/// Reasons for which objects of a node are not as wanted, and what they are for its cluster.
const REFUSED: [(NodeReason, ClusterReason); 3] = [
    (NodeReason::ApplyRefused, ClusterReason::ApplyRefused),
    (NodeReason::NameCollision, ClusterReason::NameCollision),
    (NodeReason::InvalidSpec, ClusterReason::InvalidSpec),
];

/// Why its pod will not become ready by waiting.
pub(super) fn stuck(node: &ObservedNode) -> Option<&str> {
    let ready = node.node.status.as_ref()?.condition(NodeCondition::Ready)?;
    let reasons = STUCK.map(|reason| -> &'static str { reason.into() });
    (ready.status != "True" && reasons.contains(&ready.reason.as_str())).then_some(ready.message.as_str())
}

/// Why its objects cannot be what its spec asks for.
pub(super) fn refused(node: &ObservedNode) -> Option<(ClusterReason, &str)> {
    let condition = current(node, NodeCondition::ResourcesReady)?;
    let is = |reason: NodeReason| condition.reason == Into::<&str>::into(reason);
    let (_, reason) = REFUSED.into_iter().find(|(reason, _)| is(*reason))?;
    (condition.status != "True").then_some((reason, condition.message.as_str()))
}

/// What its server said against the directives of its spec.
pub(super) fn refused_directive(node: &ObservedNode) -> Option<&str> {
    let condition = current(node, NodeCondition::LiveConfigApplied)?;
    let refused: &'static str = NodeReason::ServerRefused.into();
    (condition.reason == refused).then_some(condition.message.as_str())
}

/// Anything of the kind, for a node that is not there yet or not any more.
pub(super) fn words(node: &ObservedNode) -> Option<&str> {
    refused(node).map(|(_, words)| words).or_else(|| stuck(node))
}

/// A condition that speaks of the present spec, not of one that was corrected meanwhile.
fn current(node: &ObservedNode, type_: NodeCondition) -> Option<&Condition> {
    let status = node.node.status.as_ref()?;
    status.condition(type_).filter(|condition| condition.observed_generation == node.node.metadata.generation)
}
