//! Which changes of the conditions are worth an event: a person reads them in `kubectl describe`, so only transitions
//! that somebody would want to know of.

use api::ValkeyNodeStatus;
use api::condition::{NodeCondition, NodeReason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};

/// The events between two statuses.
pub(super) fn between(before: &ValkeyNodeStatus, after: &ValkeyNodeStatus) -> Vec<Event> {
    let changed = |type_: NodeCondition| -> Option<&Condition> {
        let now = after.condition(type_)?;
        let then = before.condition(type_);
        let same = then.is_some_and(|then| then.status == now.status && then.reason == now.reason);
        (!same).then_some(now)
    };
    let mut events = Vec::new();
    if let Some(ready) = changed(NodeCondition::Ready) {
        if ready.status == "True" {
            events.push(event(EventType::Normal, "Ready", ready));
        } else if before.ready || is_failure(&ready.reason) {
            events.push(event(EventType::Warning, &ready.reason, ready));
        }
    }
    if let Some(resources) = changed(NodeCondition::ResourcesReady)
        && [NodeReason::NameCollision, NodeReason::ApplyRefused]
            .map(word)
            .contains(&resources.reason.as_str())
    {
        events.push(event(EventType::Warning, &resources.reason, resources));
    }
    if let Some(claim) = changed(NodeCondition::PersistentVolumeClaimReady) {
        let normal = claim.status == "True" || claim.reason == word(NodeReason::Resizing);
        if normal && before.condition(NodeCondition::PersistentVolumeClaimReady).is_some() {
            events.push(event(EventType::Normal, &claim.reason, claim));
        } else if [NodeReason::ClaimLost, NodeReason::ClaimNotFound, NodeReason::ClaimTerminating]
            .map(word)
            .contains(&claim.reason.as_str())
        {
            events.push(event(EventType::Warning, &claim.reason, claim));
        }
    }
    if let Some(config) = changed(NodeCondition::LiveConfigApplied)
        && config.reason == word(NodeReason::ServerRefused)
    {
        events.push(event(EventType::Warning, &config.reason, config));
    }
    if let Some(roll) = changed(NodeCondition::WorkloadRollPending)
        && roll.status == "True"
    {
        events.push(event(EventType::Normal, "RollPending", roll));
    }
    events
}

fn word(reason: NodeReason) -> &'static str {
    reason.into()
}

fn is_failure(reason: &str) -> bool {
    [
        NodeReason::Unschedulable,
        NodeReason::ImagePullFailed,
        NodeReason::CrashLooping,
        NodeReason::ContainerCreationFailed,
        NodeReason::PodFailed,
        NodeReason::PodCreationFailed,
        NodeReason::AuthenticationFailed,
        NodeReason::AccessUnavailable,
        NodeReason::TlsFailed,
        NodeReason::InvalidSpec,
    ]
    .map(word)
    .contains(&reason)
}

fn event(type_: EventType, reason: &str, condition: &Condition) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(condition.message.clone()).filter(|message| !message.is_empty()),
        action: action(&condition.type_).to_owned(),
        secondary: None,
    }
}

/// The API wants to know what was being done.
fn action(condition: &str) -> &'static str {
    match condition {
        "PersistentVolumeClaimReady" => "ManageVolume",
        "LiveConfigApplied" => "ApplyConfiguration",
        _ => "RunServer",
    }
}
