//! What a user reads: phases, conditions, the record of a change, and the shards when slots are lost.

use api::ValkeyClusterStatus;
use api::cluster::{ClusterPhase, Orchestration, ShardStatus};
use api::condition::ClusterReason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pretty_assertions::assert_eq;

use super::super::act::Outcome;
use super::super::observe::{Observed, PodStage};
use super::super::plan::{Blocked, Plan, Step, Undertaking};
use super::super::server::{ServerFacts, ServerView};
use super::super::status;
use super::super::topology::Place;
use super::super::users::{Problem, Users};
use super::convergence::spec;
use super::world::{World, at};
use crate::heartbeats::Agent;
use crate::objects::{Collision, Kind};
use crate::violation::Violation;

/// Something that is the matter with a cluster of 3 shards with a replica each.
type Matter = fn(&mut Observed);
/// Something that was planned or came of it.
type Came = fn(&mut Users, &mut Plan, &mut Outcome);

fn silence(observed: &mut Observed, place: Place) {
    observed.nodes.get_mut(&place).expect("should be there").server =
        ServerView::Unreachable("no answer".to_owned());
}

fn facts(observed: &mut Observed, place: Place) -> &mut ServerFacts {
    match &mut observed.nodes.get_mut(&place).expect("should be there").server {
        ServerView::Answering(facts) => facts,
        other => panic!("{place:?} should answer: {other:?}"),
    }
}

fn unlink(observed: &mut Observed, place: Place) {
    let replication = facts(observed, place).replication.as_mut().expect("should replicate");
    replication.primary.as_mut().expect("should follow").link_up = false;
}

fn rolling(plan: &mut Plan) {
    plan.undertaking = Some(Undertaking {
        name: "RollingUpdate",
        progress: "2 of 6 nodes done".to_owned(),
        next: Some("restarting gamma-0-1".to_owned()),
        pending: vec!["gamma-0-1".to_owned(), "gamma-0-0".to_owned()],
    });
}

fn refused() -> kit::apply::Error {
    let status = kube::core::Status::failure("exceeded quota", "Forbidden").with_code(403);
    let source = Box::new(kube::Error::Api(Box::new(status)));
    kit::apply::Error::Call { verb: "apply", kind: "ValkeyNode".to_owned(), name: "x".to_owned(), source }
}

/// `Status Reason` of a condition.
fn condition(status: &ValkeyClusterStatus, type_: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map(|found| format!("{} {}", found.status, found.reason)).unwrap_or_default()
}

fn nothing(_: &mut Users, _: &mut Plan, _: &mut Outcome) {}

/// What is the matter, what came of it, and what a user reads then.
const PHASES: [(&str, Matter, Came, ClusterPhase, &str, &str); 14] = [
    ("nothing", |_| {}, nothing, ClusterPhase::Ready, "ClusterHealthy", "3 shards serve all 16384 slots"),
    (
        "a roll",
        |_| {},
        |_, plan, _| rolling(plan),
        ClusterPhase::Updating,
        "ClusterHealthy",
        "3 shards serve all 16384 slots",
    ),
    (
        "a replica is away",
        |observed| silence(observed, (1, 1)),
        nothing,
        ClusterPhase::Degraded,
        "NodesNotReachable",
        "the server of gamma-1-1 does not answer",
    ),
    (
        "a replica is away in a roll",
        |observed| silence(observed, (1, 1)),
        |_, plan, _| rolling(plan),
        ClusterPhase::Updating,
        "NodesNotReachable",
        "the server of gamma-1-1 does not answer",
    ),
    (
        "a primary is away",
        |observed| silence(observed, (1, 0)),
        nothing,
        ClusterPhase::Degraded,
        "SlotsUncovered",
        "10922 of 16384 slots are served; the server of gamma-1-0 does not answer",
    ),
    (
        "a primary is away in a roll",
        |observed| silence(observed, (1, 0)),
        |_, plan, _| rolling(plan),
        ClusterPhase::Degraded,
        "SlotsUncovered",
        "10922 of 16384 slots are served; the server of gamma-1-0 does not answer",
    ),
    (
        "two replicas are away",
        |observed| {
            silence(observed, (0, 1));
            silence(observed, (2, 1));
        },
        nothing,
        ClusterPhase::Degraded,
        "NodesNotReachable",
        "the servers of 2 nodes do not answer: gamma-0-1, gamma-2-1",
    ),
    (
        "a link is down",
        |observed| unlink(observed, (2, 1)),
        nothing,
        ClusterPhase::Degraded,
        "ReplicasNotInSync",
        "gamma-2-1 of shard 2 not in sync yet",
    ),
    (
        "a server knows too few",
        |observed| {
            let gone = facts(observed, (2, 1)).id.clone();
            facts(observed, (0, 0)).nodes.nodes.retain(|node| node.id != gone);
        },
        nothing,
        ClusterPhase::Degraded,
        "Forming",
        "the servers do not all know each other yet",
    ),
    (
        "a pod is not ready",
        |observed| {
            let node = observed.nodes.get_mut(&(0, 0)).expect("should be there");
            node.pod.as_mut().expect("should have a pod").stage = PodStage::Started;
        },
        nothing,
        ClusterPhase::Degraded,
        "NodesNotReachable",
        "5 of 6 pods are ready",
    ),
    (
        "a node is gone",
        |observed| drop(observed.nodes.remove(&(2, 1))),
        nothing,
        ClusterPhase::Degraded,
        "NodesMissing",
        "1 nodes are still to be made",
    ),
    (
        "a name is taken",
        |observed| {
            observed.collisions.push(Collision {
                kind: Kind::Service,
                name: "valkey-gamma".to_owned(),
                holder: "somebody else".to_owned(),
            });
        },
        nothing,
        ClusterPhase::Error,
        "NameCollision",
        "Service valkey-gamma belongs to somebody else; remove that object, or give this cluster another name",
    ),
    (
        "a write is refused",
        |_| {},
        |_, _, outcome| outcome.error = Some(refused()),
        ClusterPhase::Error,
        "ApplyRefused",
        "exceeded quota",
    ),
    (
        "a decision is due",
        |_| {},
        |_, plan, _| plan.waits.push("data is gone".to_owned()),
        ClusterPhase::Error,
        "WaitingForUser",
        "data is gone",
    ),
];

#[test]
fn a_phase_says_how_a_cluster_is_and_a_reason_why() {
    let settled = World::settled(&spec(3, 1));
    for (name, matter, came, phase, reason, message) in PHASES {
        let mut world = settled.clone();
        let mut observed = world.observe();
        matter(&mut observed);
        let status = world.status_after(&observed, came);
        let told = (status.phase, status.reason.as_deref(), status.message.as_deref());
        assert_eq!(told, (Some(phase), Some(reason), Some(message)), "{name}");
        let ready = if reason == "ClusterHealthy" { "True" } else { "False" };
        assert_eq!(condition(&status, "Ready"), format!("{ready} {reason}"), "{name}");
        let degraded = phase == ClusterPhase::Degraded;
        let expected = if degraded { format!("True {reason}") } else { "False ClusterHealthy".to_owned() };
        assert_eq!(condition(&status, "Degraded"), expected, "{name}");
        assert_eq!(condition(&status, "ClusterFormed"), "True Formed", "{name}: it stays formed");
    }
}

#[test]
fn a_creation_goes_from_pending_to_ready_and_is_never_an_alarm() {
    let mut world = World::empty(&spec(2, 1));
    let mut phases = Vec::new();
    for _ in 0..12 {
        world.pass();
        let status = world.status();
        assert_eq!(condition(&status, "Degraded"), "False ClusterHealthy");
        phases.extend(status.phase);
        world.tick();
    }
    phases.dedup();
    assert_eq!(phases, [ClusterPhase::Pending, ClusterPhase::Creating, ClusterPhase::Ready]);
}

#[test]
fn columns_count_what_is_ready() {
    let mut world = World::settled(&spec(3, 1));
    let mut observed = world.observe();
    silence(&mut observed, (1, 0));
    let status = world.status_after(&observed, nothing);
    let summary = status.summary.expect("should have a summary");
    assert_eq!((summary.shards.as_str(), summary.nodes.as_str()), ("2/3", "4/6"));
    assert_eq!(summary.slots, "10922/16384");
    assert_eq!((status.shards, status.ready_shards), (3, 2));
    assert_eq!(status.version.as_deref(), Some("9.1.2"));
}

#[test]
fn the_oldest_version_counts() {
    let mut world = World::settled(&spec(2, 0));
    let mut observed = world.observe();
    facts(&mut observed, (1, 0)).version = Some(valkey::Version::new(8, 1, 4));
    assert_eq!(world.status_after(&observed, nothing).version.as_deref(), Some("8.1.4"));
}

#[test]
fn an_invalid_spec_is_an_error_that_forgets_nothing() {
    let before = World::settled(&spec(2, 0)).status();
    let violations =
        [Violation::new("spec.shards", "is wrong"), Violation::new("spec.users", "is wrong too")];
    let after = status::halted(&status::Problem::violations(&violations), Some(7), &before, at(500));
    assert_eq!((after.phase, after.observed_generation), (Some(ClusterPhase::Error), Some(7)));
    assert_eq!(after.message.as_deref(), Some("spec.shards: is wrong; spec.users: is wrong too"));
    assert_eq!(condition(&after, "Ready"), "False InvalidSpec");
    assert_eq!(condition(&after, "Progressing"), "False InvalidSpec");
    assert_eq!(condition(&after, "ClusterFormed"), "True Formed");
    assert_eq!(condition(&after, "UsersApplied"), condition(&before, "UsersApplied"));
    assert_eq!(after.shard_details, before.shard_details);
    assert_eq!(after.conditions.len(), before.conditions.len());
}

/// A condition, what is the matter, what came of it, and how the condition is then.
const CONDITIONS: [(&str, Matter, Came, &str, &str); 17] = [
    ("Progressing", |_| {}, nothing, "False Stable", ""),
    (
        "Progressing",
        |_| {},
        |_, plan, _| rolling(plan),
        "True Rolling",
        "RollingUpdate: 2 of 6 nodes done, restarting gamma-0-1",
    ),
    (
        "Progressing",
        |_| {},
        |_, plan, _| {
            rolling(plan);
            let change = plan.undertaking.as_mut().expect("should roll");
            (change.name, change.next) = ("Scale", None);
        },
        "True Scaling",
        "Scale: 2 of 6 nodes done, waiting for the servers",
    ),
    ("Progressing", |_| {}, |_, plan, _| plan.settling = true, "True Reconciling", ""),
    (
        "RollBlocked",
        |_| {},
        |_, plan, _| plan.blocked = Some(Blocked::NoReplicaInSync("shard 1".to_owned())),
        "True NoReplicaInSync",
        "shard 1",
    ),
    (
        "RollBlocked",
        |_| {},
        |_, plan, _| plan.blocked = Some(Blocked::OldRelease("too old".to_owned())),
        "True OldRelease",
        "too old",
    ),
    (
        "RollBlocked",
        |_| {},
        |_, plan, _| plan.blocked = Some(Blocked::PodNotBack("no image".to_owned())),
        "True PodNotBack",
        "no image",
    ),
    ("RollBlocked", |_| {}, |_, plan, _| rolling(plan), "False Rolling", ""),
    (
        "AuthFallback",
        |observed| facts(observed, (2, 0)).by_fallback = true,
        nothing,
        "True DefaultUserUsed",
        "the operator's password was refused and the default user let it in: gamma-2-0",
    ),
    (
        "UsersApplied",
        |_| {},
        |users, _, _| {
            users.problems.push(Problem {
                reason: ClusterReason::PasswordSecretMissing,
                message: "the message".to_owned(),
            });
        },
        "False PasswordSecretMissing",
        "the message",
    ),
    (
        "UsersApplied",
        |_| {},
        |_, plan, _| drop(plan.users.insert((0, 0), Vec::new())),
        "False UsersPending",
        "1 nodes are getting other users",
    ),
    (
        "UsersApplied",
        |_| {},
        |users, _, _| users.file.as_mut().expect("should have one").revision.clear(),
        "True UsersPropagating",
        "",
    ),
    (
        "SidecarsConnected",
        |observed| agent(observed, (1, 1), Agent::Silent),
        nothing,
        "False SidecarsSilent",
        "not heard of late: the agents of gamma-1-1; their servers are asked instead",
    ),
    (
        "SidecarsConnected",
        |observed| agent(observed, (1, 1), Agent::Absent),
        nothing,
        "False SidecarsMissing",
        "without an agent until they are restarted next: gamma-1-1",
    ),
    // A new leader has heard nobody yet, and goes on with what the one before it wrote: here, that all were heard.
    (
        "SidecarsConnected",
        |observed| agent(observed, (1, 1), Agent::Unknown),
        nothing,
        "True SidecarsHeard",
        "",
    ),
    // A pod that starts or ends says so elsewhere.
    (
        "SidecarsConnected",
        |observed| {
            agent(observed, (1, 1), Agent::Silent);
            observed.nodes.get_mut(&(1, 1)).expect("should be there").pod = None;
        },
        nothing,
        "True SidecarsHeard",
        "",
    ),
    (
        "SidecarsConnected",
        |observed| observed.nodes.values_mut().for_each(|node| node.pod = None),
        nothing,
        "Unknown SidecarsPending",
        "",
    ),
];

fn agent(observed: &mut Observed, place: Place, agent: Agent) {
    observed.nodes.get_mut(&place).expect("should be there").agent = agent;
}

#[test]
fn conditions_tell_what_stands_in_the_way() {
    for (type_, matter, came, expected, message) in CONDITIONS {
        let mut world = World::settled(&spec(3, 1));
        let mut observed = world.observe();
        matter(&mut observed);
        let status = world.status_after(&observed, came);
        assert_eq!(condition(&status, type_), expected);
        let told = status.conditions.iter().find(|condition| condition.type_ == type_);
        let told = told.map(|condition| condition.message.clone()).unwrap_or_default();
        assert!(message.is_empty() || told == message, "{type_} {expected}: {told}");
    }
}

#[test]
fn conditions_of_a_cluster_at_rest() {
    let mut world = World::settled(&format!("{}\nconfig: {{port: '1'}}", spec(1, 0)));
    let observed = world.observe();
    let status = world.status_after(&observed, nothing);
    for (type_, expected) in [
        ("UsersApplied", "True UsersInStep"),
        ("SlotsAssigned", "True AllSlotsAssigned"),
        ("RollBlocked", "False NotRolling"),
        ("AuthFallback", "False NoFallback"),
        ("ConfigurationWarning", "True DirectiveIgnored"),
        ("SidecarsConnected", "True SidecarsHeard"),
    ] {
        assert_eq!(condition(&status, type_), expected, "{type_}");
    }
    let acl = status.acl.expect("should tell of the users");
    assert!(acl.synced && acl.revision.is_some());
    // Times are those of transitions, not of looks.
    assert_eq!(status.conditions, world.status().conditions);
}

#[test]
fn a_change_is_recorded_from_its_beginning_to_its_end() {
    let mut world = World::settled(&spec(3, 1));
    let observed = world.observe();
    let began = world.status_after(&observed, |_, plan, _| rolling(plan)).orchestration;
    let record = Orchestration {
        name: "RollingUpdate".to_owned(),
        phase: Some("2 of 6 nodes done".to_owned()),
        step: Some("restarting gamma-0-1".to_owned()),
        started_at: Some(Time(at(500))),
        last_action: None,
        target: None,
        pending: vec!["gamma-0-1".to_owned(), "gamma-0-0".to_owned()],
    };
    assert_eq!(began, Some(record.clone()));

    let earlier =
        Orchestration { started_at: Some(Time(at(3))), last_action: Some("before".to_owned()), ..record };
    world.cluster.status.as_mut().expect("should have a status").orchestration = Some(earlier.clone());
    let goes_on = world.status_after(&observed, |_, plan, _| rolling(plan)).orchestration;
    assert_eq!(goes_on, Some(earlier.clone()), "it began when it began");

    let step = Step::HandOver { shard: 0, to: (0, 1), node: "gamma-0-1".to_owned() };
    let acted = world.status_after(&observed, |_, plan, _| {
        rolling(plan);
        plan.step = Some(step);
    });
    let last = acted.orchestration.and_then(|record| record.last_action);
    assert_eq!(last.as_deref(), Some("handing shard 0 over to gamma-0-1"));

    let healing = world.status_after(&observed, |_, plan, _| plan.settling = true).orchestration;
    assert_eq!(healing, Some(earlier), "healing interrupts a change, and does not end it");
    assert_eq!(world.status_after(&observed, nothing).orchestration, None);

    let other = world.status_after(&observed, |_, plan, _| {
        rolling(plan);
        plan.undertaking.as_mut().expect("should roll").name = "Scale";
    });
    let other = other.orchestration.expect("should be recorded");
    assert_eq!((other.started_at, other.last_action), (Some(Time(at(500))), None), "another one begins anew");
}

fn shard(status: &ValkeyClusterStatus, index: usize) -> &ShardStatus {
    &status.shard_details[index]
}

#[test]
fn a_shard_without_its_primary_still_says_whose_slots_they_are() {
    let mut world = World::settled(&spec(3, 1));
    let mut observed = world.observe();
    silence(&mut observed, (1, 0));
    let status = world.status_after(&observed, nothing);
    let lost = shard(&status, 1);
    assert_eq!((lost.slots.as_str(), lost.primary.as_deref(), lost.ready), ("5461-10922", None, false));
    let nodes: Vec<&str> = lost.replicas.iter().map(|replica| replica.node.as_str()).collect();
    assert_eq!(nodes, ["gamma-1-0", "gamma-1-1"]);
    assert!(lost.replicas.iter().all(|replica| !replica.in_sync));
    let whole = shard(&status, 0);
    assert_eq!((whole.primary.as_deref(), whole.ready), (Some("gamma-0-0"), true));
}

#[test]
fn slots_of_a_shard_that_is_gone_are_remembered_until_somebody_has_them() {
    for spec in [spec(3, 0), format!("{}\npersistence: {{size: 1Gi}}", spec(3, 0))] {
        let mut world = World::settled(&spec);
        world.lose((1, 0));
        for pass in 0..16 {
            world.pass();
            let status = world.status();
            assert_eq!(shard(&status, 1).slots, "5461-10922", "{spec}, pass {pass}");
            world.tick();
        }
    }
}

#[test]
fn slots_that_others_have_are_nobody_elses_memory() {
    let mut world = World::settled(&spec(2, 0));
    world.cluster.spec.shards = 3;
    let remembered = ShardStatus { index: 2, slots: "0-100".to_owned(), ..ShardStatus::default() };
    world.cluster.status.as_mut().expect("should have a status").shard_details.push(remembered);
    let observed = world.observe();
    let status = world.status_after(&observed, nothing);
    assert_eq!(shard(&status, 2).slots, "");
    assert_eq!(shard(&status, 0).slots, "0-8191");
}

#[test]
fn a_shard_is_ready_with_every_copy_and_not_before() {
    let mut world = World::settled(&spec(1, 2));
    let mut observed = world.observe();
    unlink(&mut observed, (0, 2));
    let status = world.status_after(&observed, nothing);
    let in_sync: Vec<bool> = shard(&status, 0).replicas.iter().map(|replica| replica.in_sync).collect();
    assert_eq!((in_sync, shard(&status, 0).ready), (vec![true, false], false));
    assert_eq!(
        status.pod_disruption_budget.map(|budget| format!("{:?}", budget.mode)).as_deref(),
        Some("Normal")
    );
    unlink(&mut observed, (0, 1));
    let status = world.status_after(&observed, nothing);
    assert_eq!(
        status.pod_disruption_budget.map(|budget| format!("{:?}", budget.mode)).as_deref(),
        Some("Locked")
    );
}

#[test]
fn the_selector_finds_the_pods_of_this_cluster() {
    let status = World::settled(&spec(1, 0)).status();
    assert_eq!(status.selector.as_deref(), Some("app.kubernetes.io/name=valkey,valkey.io/cluster=gamma"));
}
