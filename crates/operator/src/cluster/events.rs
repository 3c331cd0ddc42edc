//! What is worth an event: decisions, and transitions somebody would want to know of.

use api::condition::ClusterCondition;
use api::{ValkeyClusterStatus, ValkeyNode};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource as _;
use kube::runtime::events::{Event, EventType};

use super::plan::Deed;

/// Conditions that are told of when they become true, as warnings.
const ALARMS: [ClusterCondition; 4] = [
    ClusterCondition::Degraded,
    ClusterCondition::RollBlocked,
    ClusterCondition::AuthFallback,
    ClusterCondition::ConfigurationWarning,
];

/// Events for what was decided, and for what came of it.
pub(super) fn deeds<'a>(deeds: impl Iterator<Item = &'a Deed>, namespace: &str) -> Vec<Event> {
    deeds
        .map(|deed| Event {
            type_: if deed.warning { EventType::Warning } else { EventType::Normal },
            reason: deed.reason.to_owned(),
            note: Some(deed.note.clone()),
            action: "RunCluster".to_owned(),
            secondary: deed.node.as_ref().map(|node| ObjectReference {
                api_version: Some(ValkeyNode::api_version(&()).into_owned()),
                kind: Some(ValkeyNode::kind(&()).into_owned()),
                name: Some(node.clone()),
                namespace: Some(namespace.to_owned()),
                ..ObjectReference::default()
            }),
        })
        .collect()
}

/// The events between two statuses.
pub(super) fn between(before: &ValkeyClusterStatus, after: &ValkeyClusterStatus) -> Vec<Event> {
    let mut events = Vec::new();
    let changed = |type_: ClusterCondition| -> Option<&Condition> {
        let now = after.condition(type_)?;
        let then = before.condition(type_);
        let same = then.is_some_and(|then| then.status == now.status && then.reason == now.reason);
        (!same).then_some(now)
    };
    if let Some(ready) = changed(ClusterCondition::Ready) {
        let failure = ["InvalidSpec", "NameCollision", "ApplyRefused", "TlsSecretUnusable", "WaitingForUser"]
            .contains(&ready.reason.as_str());
        if ready.status == "True" {
            events.push(event(EventType::Normal, "Ready", ready));
        } else if failure {
            events.push(event(EventType::Warning, &ready.reason, ready));
        }
    }
    if let Some(formed) = changed(ClusterCondition::ClusterFormed)
        && formed.status == "True"
    {
        events.push(event(EventType::Normal, "Formed", formed));
    }
    for alarm in ALARMS {
        if let Some(condition) = changed(alarm)
            && condition.status == "True"
        {
            events.push(event(EventType::Warning, &condition.reason, condition));
        }
    }
    if let Some(sidecars) = changed(ClusterCondition::SidecarsConnected)
        && sidecars.reason == "SidecarsSilent"
        && before.condition(ClusterCondition::SidecarsConnected).is_some_and(|then| then.status == "True")
    {
        events.push(event(EventType::Warning, &sidecars.reason, sidecars));
    }
    if let Some(users) = changed(ClusterCondition::UsersApplied)
        && users.status == "False"
        && users.reason != "UsersPending"
    {
        events.push(event(EventType::Warning, &users.reason, users));
    }
    events
}

fn event(type_: EventType, reason: &str, condition: &Condition) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(condition.message.clone()).filter(|message| !message.is_empty()),
        action: "RunCluster".to_owned(),
        secondary: None,
    }
}
