//! Events tell transitions and deeds, once, and nothing that is no news.

use api::ValkeyClusterStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::runtime::events::{Event, EventType};
use pretty_assertions::assert_eq;

use super::super::events::{between, deeds};
use super::super::plan::{Deed, Plan};
use super::convergence::spec;
use super::world::{NAMESPACE, World, at};

/// A status with these conditions, as `Type Status Reason`, each with its reason as a message.
fn with(conditions: &[&str]) -> ValkeyClusterStatus {
    let condition = |text: &&str| {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let [type_, status, reason] = words.try_into().expect("should be three words");
        Condition {
            message: format!("because of {reason}"),
            type_,
            status,
            reason,
            observed_generation: Some(1),
            last_transition_time: Time(at(0)),
        }
    };
    ValkeyClusterStatus {
        conditions: conditions.iter().map(condition).collect(),
        ..ValkeyClusterStatus::default()
    }
}

fn shown(event: &Event) -> String {
    let type_ = match event.type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    format!("{type_} {}: {}", event.reason, event.note.as_deref().unwrap_or_default())
}

fn told(before: &[&str], after: &[&str]) -> Vec<String> {
    between(&with(before), &with(after)).iter().map(shown).collect()
}

#[test]
fn each_transition_that_matters_is_told() {
    for (before, after, expected) in [
        ("Ready False Forming", "Ready True ClusterHealthy", "Normal Ready: because of ClusterHealthy"),
        (
            "Ready True ClusterHealthy",
            "Ready False InvalidSpec",
            "Warning InvalidSpec: because of InvalidSpec",
        ),
        (
            "Ready False Forming",
            "Ready False NameCollision",
            "Warning NameCollision: because of NameCollision",
        ),
        ("Ready False Forming", "Ready False ApplyRefused", "Warning ApplyRefused: because of ApplyRefused"),
        ("ClusterFormed False NotFormed", "ClusterFormed True Formed", "Normal Formed: because of Formed"),
        (
            "Degraded False ClusterHealthy",
            "Degraded True SlotsUncovered",
            "Warning SlotsUncovered: because of SlotsUncovered",
        ),
        (
            "Degraded True ReplicasNotInSync",
            "Degraded True SlotsUncovered",
            "Warning SlotsUncovered: because of SlotsUncovered",
        ),
        (
            "RollBlocked False Rolling",
            "RollBlocked True PodNotBack",
            "Warning PodNotBack: because of PodNotBack",
        ),
        (
            "AuthFallback False NoFallback",
            "AuthFallback True DefaultUserUsed",
            "Warning DefaultUserUsed: because of DefaultUserUsed",
        ),
        (
            "ConfigurationWarning False ConfigurationClean",
            "ConfigurationWarning True DirectiveIgnored",
            "Warning DirectiveIgnored: because of DirectiveIgnored",
        ),
        (
            "UsersApplied True UsersInStep",
            "UsersApplied False UsersRefused",
            "Warning UsersRefused: because of UsersRefused",
        ),
    ] {
        assert_eq!(told(&[before], &[after]), [expected], "from {before}");
        assert_eq!(told(&[], &[after]), [expected], "from nothing");
        assert_eq!(told(&[after], &[after]), Vec::<String>::new(), "{after} is told once");
    }
}

#[test]
fn what_passes_by_itself_is_no_news() {
    for (before, after) in [
        ("Ready True ClusterHealthy", "Ready False NodesNotReachable"),
        ("Degraded True SlotsUncovered", "Degraded False ClusterHealthy"),
        ("ClusterFormed True Formed", "ClusterFormed False NotFormed"),
        ("RollBlocked True PodNotBack", "RollBlocked False Rolling"),
        ("UsersApplied True UsersInStep", "UsersApplied False UsersPending"),
        ("UsersApplied False UsersPending", "UsersApplied True UsersPropagating"),
        ("Progressing False Stable", "Progressing True Reconciling"),
        ("SlotsAssigned True AllSlotsAssigned", "SlotsAssigned False SlotsUnassigned"),
    ] {
        assert_eq!(told(&[before], &[after]), Vec::<String>::new(), "{before} to {after}");
    }
}

#[test]
fn a_message_that_changes_alone_is_no_news() {
    let before = with(&["Degraded True SlotsUncovered"]);
    let mut after = before.clone();
    after.conditions[0].message = "other nodes".to_owned();
    assert!(between(&before, &after).is_empty());
}

#[test]
fn a_creation_tells_that_it_forms_and_is_ready() {
    let mut world = World::empty(&spec(2, 1));
    let mut told = Vec::new();
    for _ in 0..12 {
        let before = world.status();
        told.extend(world.pass().told.into_iter().map(str::to_owned));
        told.extend(between(&before, &world.status()).into_iter().map(|event| event.reason));
        world.tick();
    }
    assert_eq!(told, ["Forming", "Formed", "Ready"]);
}

#[test]
fn deeds_are_about_their_nodes() {
    let plan = Plan {
        deeds: vec![
            Deed::warning("PrimaryLost", "gamma-0-1 takes over").about("gamma-0-1"),
            Deed::normal("Forming", "forming a cluster"),
        ],
        ..Plan::default()
    };
    let events = deeds(plan.deeds.iter(), NAMESPACE);
    let shown: Vec<String> = events.iter().map(shown).collect();
    assert_eq!(shown, ["Warning PrimaryLost: gamma-0-1 takes over", "Normal Forming: forming a cluster"]);
    let about = events[0].secondary.as_ref().expect("should be about a node");
    assert_eq!(about.kind.as_deref(), Some("ValkeyNode"));
    assert_eq!(about.name.as_deref(), Some("gamma-0-1"));
    assert_eq!(about.namespace.as_deref(), Some(NAMESPACE));
    assert_eq!(events[1].secondary, None);
}
