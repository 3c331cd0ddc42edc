//! What a user reads of each world: conditions, fields, and nothing that changes while the world does not.

use std::sync::Arc;

use api::ValkeyNodeStatus;
use api::condition::NodeCondition;
use api::node::ObservedRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::super::act::{ConfigOutcome, Outcome};
use super::super::build::Kind;
use super::super::observe::Collision;
use super::super::server::ServerView;
use super::super::status;
use super::super::validate::validate;
use super::pods;
use super::world::{World, at, node, nothing_done};

/// Something that can be the matter, by what it does to a world.
type Matter = fn(&mut World);

fn condition(status: &ValkeyNodeStatus, type_: NodeCondition) -> &Condition {
    status.condition(type_).unwrap_or_else(|| panic!("should have {type_:?}: {status:#?}"))
}

/// `Type=Status/Reason` of every condition.
fn lines(status: &ValkeyNodeStatus) -> Vec<String> {
    status.conditions.iter().map(|one| format!("{}={}/{}", one.type_, one.status, one.reason)).collect()
}

fn line(status: &ValkeyNodeStatus, type_: NodeCondition) -> String {
    let one = condition(status, type_);
    format!("{}/{}", one.status, one.reason)
}

#[test]
fn a_node_that_is_well_says_so() {
    let world = World::settled("persistence: {size: 1Gi}");
    assert_eq!(
        lines(&world.status),
        [
            "Ready=True/PodRunning",
            "Progressing=False/Stable",
            "ResourcesReady=True/AllHealthy",
            "StatefulSetReady=True/ReplicaAvailable",
            "PersistentVolumeClaimReady=True/Bound",
            "LiveConfigApplied=True/Applied",
            "WorkloadRollPending=False/UpToDate",
        ]
    );
    let status = &world.status;
    assert!(status.ready);
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.pod_name.as_deref(), Some("valkey-alpha-0"));
    assert_eq!(status.pod_ip.as_deref(), Some(pods::ADDRESS));
    assert_eq!(status.pvc_name.as_deref(), Some("valkey-alpha-data"));
    assert_eq!(status.service_name.as_deref(), Some("valkey-alpha"));
    assert_eq!(status.observed_role, Some(ObservedRole::Primary));
    assert_eq!(status.observed_replica_of, None);
    assert_eq!(status.server_version.as_deref(), Some("9.1.2"));
    assert_eq!(status.workload_revision.as_deref(), Some(world.desired.revision.as_str()));
    assert_eq!(status.pending_workload_revision, None);
}

#[test]
fn conditions_that_do_not_apply_are_absent() {
    for (spec, stateful_set, claim) in [
        ("{}", true, false),
        ("workloadType: Deployment", false, false),
        ("workloadType: Pod\npersistence: {size: 1Gi}", false, true),
        ("persistence: {mode: external, existingClaim: theirs}", true, true),
    ] {
        let status = World::settled(spec).status;
        assert!(status.ready, "{spec}");
        assert_eq!(status.condition(NodeCondition::StatefulSetReady).is_some(), stateful_set, "{spec}");
        assert_eq!(status.condition(NodeCondition::PersistentVolumeClaimReady).is_some(), claim, "{spec}");
    }
}

#[test]
fn a_replica_names_its_primary() {
    let mut world = World::settled("{}");
    world.change_facts(|facts| {
        facts.role = Some(ObservedRole::Replica);
        facts.replica_of = Some("10.9.9.9".to_owned());
    });
    world.observed.replica_of = Some("gamma".to_owned());
    let status = world.pass_without_writes();
    assert_eq!(status.observed_role, Some(ObservedRole::Replica));
    assert_eq!(status.observed_replica_of.as_deref(), Some("gamma"));
}

/// What is the matter, and then `Ready` and `Progressing`.
const MATTERS: [(&str, Matter, &str, &str); 14] = [
    ("no pod", |world| gone(world), "False/PodMissing", "True/WaitingForPod"),
    (
        "no quota",
        |world| {
            gone(world);
            world.observed.pod_creation_failure = Some("exceeded quota".to_owned());
        },
        "False/PodCreationFailed",
        "False/Blocked",
    ),
    (
        "unschedulable",
        |world| world.pod_status(&pods::unschedulable("no room")),
        "False/Unschedulable",
        "False/Blocked",
    ),
    (
        "no image",
        |world| world.pod_status(&pods::waiting("ErrImagePull", "not found")),
        "False/ImagePullFailed",
        "False/Blocked",
    ),
    (
        "crash loop",
        |world| world.pod_status(&pods::crash_looping(2, 1, "Error", "x")),
        "False/CrashLooping",
        "False/Blocked",
    ),
    (
        "evicted",
        |world| world.pod_status(&pods::evicted("low on memory")),
        "False/PodFailed",
        "False/Blocked",
    ),
    (
        "not ready any more",
        |world| world.pod_status(&pods::running_not_ready()),
        "False/PodNotReady",
        "False/Blocked",
    ),
    ("going", |world| world.change_pod(pods::terminating), "False/PodTerminating", "True/WaitingForPod"),
    (
        "silent",
        |world| answer(world, ServerView::Unreachable("no answer".to_owned())),
        "False/ServerUnreachable",
        "False/Blocked",
    ),
    (
        "wrong password",
        |world| answer(world, ServerView::NotAuthenticated("WRONGPASS".to_owned())),
        "False/AuthenticationFailed",
        "False/Blocked",
    ),
    (
        "no secret",
        |world| answer(world, ServerView::AccessUnavailable("no Secret".to_owned())),
        "False/AccessUnavailable",
        "False/Blocked",
    ),
    (
        "no trust",
        |world| answer(world, ServerView::NotTrusted("unknown issuer".to_owned())),
        "False/TlsFailed",
        "False/Blocked",
    ),
    ("loading", |world| answer(world, ServerView::Loading), "False/ServerLoading", "True/ServerLoading"),
    ("no address", |world| answer(world, ServerView::NotAsked), "False/PodStarting", "False/Blocked"),
];

fn gone(world: &mut World) {
    world.observed.pod = None;
    world.observed.server = ServerView::NotAsked;
}

fn answer(world: &mut World, view: ServerView) {
    world.observed.server = view;
}

#[test]
fn every_matter_has_its_reason_and_takes_the_role_away() {
    for (why, matter, ready, progressing) in MATTERS {
        let mut world = World::settled("persistence: {size: 1Gi}");
        world.change_facts(|facts| facts.role = Some(ObservedRole::Replica));
        world.observed.replica_of = Some("gamma".to_owned());
        world.status = world.pass_without_writes();
        matter(&mut world);
        let status = world.pass_without_writes();
        assert_eq!(line(&status, NodeCondition::Ready), ready, "{why}");
        assert_eq!(line(&status, NodeCondition::Progressing), progressing, "{why}");
        assert!(!status.ready, "{why}");
        assert_eq!((status.observed_role, status.observed_replica_of), (None, None), "{why}");
        assert_eq!(status.server_version, None, "{why}: nobody knows what would answer");
    }
}

#[test]
fn the_same_world_seen_twice_gives_the_same_status() {
    for (why, matter, _, _) in MATTERS {
        let mut world = World::settled("persistence: {size: 1Gi}\nconfig: {hz: '10'}");
        matter(&mut world);
        world.status = world.pass_without_writes();
        world.clock += 100;
        assert_eq!(world.pass_without_writes(), world.status, "{why}");
    }
    let mut world = World::settled("persistence: {size: 1Gi}\nconfig: {hz: '10'}");
    world.clock += 100;
    assert_eq!(world.pass_without_writes(), world.status);
}

#[test]
fn only_an_answer_makes_a_node_ready() {
    for view in [
        ServerView::NotAsked,
        ServerView::Loading,
        ServerView::Unreachable(String::new()),
        ServerView::NotAuthenticated(String::new()),
        ServerView::AccessUnavailable(String::new()),
    ] {
        let mut world = World::settled("{}");
        world.observed.server = view.clone();
        let status = world.pass_without_writes();
        assert!(!status.ready && condition(&status, NodeCondition::Ready).status == "False", "{view:?}");
    }
}

#[test]
fn an_answer_does_not_make_a_node_ready_whose_pod_is_not() {
    let mut world = World::settled("{}");
    let server = world.observed.server.clone();
    world.pod_status(&pods::running_not_ready());
    world.observed.server = server;
    let status = world.pass_without_writes();
    assert_eq!((status.ready, status.observed_role), (false, None));
}

#[test]
fn an_old_server_is_ready_and_said_to_be_unsupported() {
    let mut world = World::settled("{}");
    world.change_facts(|facts| {
        facts.supported = false;
        facts.version = Some("7.2.4".to_owned());
    });
    let status = world.pass_without_writes();
    assert_eq!(line(&status, NodeCondition::Ready), "True/UnsupportedVersion");
    assert!(condition(&status, NodeCondition::Ready).message.contains("7.2.4"));
}

#[test]
fn a_new_pod_is_starting_and_not_lost() {
    let mut world = World::settled("workloadType: Deployment");
    world.change_pod(|pod| pod.metadata.name = Some("valkey-alpha-5d4f-y8".to_owned()));
    world.pod_status(&pods::running_not_ready());
    assert_eq!(line(&world.pass_without_writes(), NodeCondition::Ready), "False/PodStarting");
}

#[test]
fn a_server_that_runs_for_a_moment_between_two_crashes_is_no_news() {
    let mut world = World::settled("{}");
    world.pod_status(&pods::crash_looping(3, 1, "Error", "bad directive"));
    let crashed = world.pass_without_writes();
    assert_eq!(line(&crashed, NodeCondition::Ready), "False/CrashLooping");
    world.status = crashed.clone();
    world.pod_status(&pods::running_not_ready());
    let between = world.pass_without_writes();
    assert_eq!(condition(&between, NodeCondition::Ready), condition(&crashed, NodeCondition::Ready));
}

#[test]
fn the_replica_of_the_stateful_set_explains_itself() {
    let mut world = World::settled("{}");
    world.meddle(Kind::StatefulSet, |set| set["status"]["readyReplicas"] = json!(0));
    world.pod_status(&pods::unschedulable("no room"));
    let status = world.pass_without_writes();
    let replica = condition(&status, NodeCondition::StatefulSetReady);
    assert_eq!((replica.status.as_str(), replica.reason.as_str()), ("False", "ReplicaUnavailable"));
    assert_eq!(replica.message, "0/1 ready replicas: pod valkey-alpha-0 cannot be scheduled: no room");
}

fn claim_after(spec: &str, change: impl FnOnce(&mut Value)) -> (String, String, String) {
    let mut world = World::settled(spec);
    world.meddle(Kind::PersistentVolumeClaim, change);
    let status = world.pass_without_writes();
    let claim = condition(&status, NodeCondition::PersistentVolumeClaimReady);
    let progressing = line(&status, NodeCondition::Progressing);
    (format!("{}/{}", claim.status, claim.reason), claim.message.clone(), progressing)
}

#[test]
fn the_claim_is_told_as_it_is() {
    let own = "persistence: {size: 1Gi}";
    let told = |change: fn(&mut Value)| claim_after(own, change);
    let of = |line: &str, message: &str, progressing: &str| {
        (line.to_owned(), message.to_owned(), progressing.to_owned())
    };
    assert_eq!(told(|_| {}), of("True/Bound", "claim valkey-alpha-data is bound, 1Gi", "False/Stable"));
    assert_eq!(
        told(|claim| claim["status"] = json!({"phase": "Pending"})),
        of("False/ClaimPending", "claim valkey-alpha-data waits for a volume", "True/WaitingForVolume")
    );
    assert_eq!(told(|claim| claim["status"]["phase"] = json!("Lost")).0, "False/ClaimLost");
    assert_eq!(
        told(|claim| claim["spec"]["resources"]["requests"]["storage"] = json!("3Gi")),
        of("False/Resizing", "growing from 1Gi to 3Gi", "True/WaitingForVolume")
    );
    let (line, message, _) = told(|claim| {
        claim["spec"]["resources"]["requests"]["storage"] = json!("3Gi");
        claim["status"]["conditions"] = json!([{"type": "FileSystemResizePending", "status": "True", "message": "waiting for a restart"}]);
    });
    assert_eq!(
        (line.as_str(), message.as_str()),
        ("False/Resizing", "growing from 1Gi to 3Gi: waiting for a restart")
    );
    assert_eq!(
        told(|claim| claim["metadata"]["deletionTimestamp"] = json!("2026-11-15T20:30:54Z")).0,
        "False/ClaimTerminating"
    );
}

#[test]
fn a_missing_claim_is_being_made_or_is_somebodys_to_make() {
    for (spec, expected) in [
        ("persistence: {size: 1Gi}", "False/ClaimPending"),
        ("persistence: {mode: external, existingClaim: theirs}", "False/ClaimNotFound"),
    ] {
        let mut world = World::settled(spec);
        world.observed.claim = None;
        let status = world.pass_without_writes();
        assert_eq!(line(&status, NodeCondition::PersistentVolumeClaimReady), expected);
        assert_eq!(condition(&status, NodeCondition::ResourcesReady).status, "False");
    }
}

#[test]
fn a_growing_volume_does_not_make_the_resources_unhealthy() {
    let mut world = World::settled("persistence: {size: 1Gi}");
    world.meddle(Kind::PersistentVolumeClaim, |claim| {
        claim["spec"]["resources"]["requests"]["storage"] = json!("3Gi");
    });
    let status = world.pass_without_writes();
    assert_eq!(line(&status, NodeCondition::ResourcesReady), "True/AllHealthy");
    assert!(status.ready);
}

#[test]
fn a_collision_is_named_with_its_holder_and_a_way_out() {
    for (kind, name, hint) in [
        (Kind::Service, "valkey-alpha", "rename this node"),
        (Kind::PersistentVolumeClaim, "valkey-alpha-data", "existingClaim"),
    ] {
        let taken = || Collision { kind, name: name.to_owned(), holder: "ValkeyCluster gamma".to_owned() };
        let mut seen = World::empty(node("persistence: {size: 1Gi}"));
        let met = seen.status_after(&Outcome { collision: Some(taken()), ..nothing_done() });
        seen.observed.collisions.push(taken());
        for status in [met, seen.pass_without_writes()] {
            let resources = condition(&status, NodeCondition::ResourcesReady);
            assert_eq!((resources.status.as_str(), resources.reason.as_str()), ("False", "NameCollision"));
            assert!(
                resources.message.contains(&format!("{name} belongs to ValkeyCluster gamma")),
                "{resources:?}"
            );
            assert!(resources.message.contains(hint), "{resources:?}");
            assert_eq!(line(&status, NodeCondition::Progressing), "False/Blocked");
        }
    }
}

#[test]
fn what_was_just_written_is_progress() {
    let world = World::empty(node("{}"));
    let outcome = Outcome { written: vec!["Service valkey-alpha".to_owned()], ..nothing_done() };
    let status = world.status_after(&outcome);
    assert_eq!(line(&status, NodeCondition::Progressing), "True/Applying");
    assert_eq!(line(&status, NodeCondition::ResourcesReady), "False/Applying");
    let world = World::settled("workloadType: Pod");
    let status = world.status_after(&Outcome { pod_deleted: Some("the pod has ended"), ..nothing_done() });
    assert_eq!(line(&status, NodeCondition::Progressing), "True/Applying");
}

#[test]
fn an_invalid_spec_is_told_and_what_was_known_stays() {
    let world = World::settled("persistence: {size: 1Gi}");
    let violations = validate(&node("persistence: {mode: enabled}")).expect_err("should be refused");
    let status = status::invalid(&violations, Some(2), &world.status, at(500));
    assert_eq!(
        lines(&status),
        ["Ready=False/InvalidSpec", "Progressing=False/Blocked", "ResourcesReady=False/InvalidSpec"]
    );
    assert_eq!((status.ready, status.observed_role, status.observed_generation), (false, None, Some(2)));
    assert_eq!(status.pod_ip, world.status.pod_ip);
    assert_eq!(status::invalid(&violations, Some(2), &status, at(900)), status);
}

#[test]
fn directives_are_applied_refused_awaited_or_unknown() {
    let mut world = World::settled("config: {hz: '10', databases: '4'}");
    assert_eq!(line(&world.status, NodeCondition::LiveConfigApplied), "True/Applied");
    world.change_spec(|spec| {
        spec.config.insert("hz".to_owned(), "20".to_owned());
    });
    let after = |config| world.status_after(&Outcome { config, ..nothing_done() });
    let refused = after(ConfigOutcome::Refused("ERR no".to_owned()));
    assert_eq!(line(&refused, NodeCondition::LiveConfigApplied), "False/ServerRefused");
    assert_eq!(condition(&refused, NodeCondition::LiveConfigApplied).message, "ERR no");
    let failed = after(ConfigOutcome::Failed("no answer".to_owned()));
    assert_eq!(line(&failed, NodeCondition::LiveConfigApplied), "Unknown/NotObserved");
    assert_eq!(line(&after(ConfigOutcome::Accepted), NodeCondition::LiveConfigApplied), "True/Applied");
    world.change_spec(|spec| {
        spec.config.insert("databases".to_owned(), "8".to_owned());
    });
    let waiting = world.status_after(&Outcome { config: ConfigOutcome::Accepted, ..nothing_done() });
    assert_eq!(line(&waiting, NodeCondition::LiveConfigApplied), "False/RestartRequired");
    assert!(condition(&waiting, NodeCondition::LiveConfigApplied).message.ends_with(": databases"));
    world.observed.server = ServerView::Loading;
    assert_eq!(line(&world.pass_without_writes(), NodeCondition::LiveConfigApplied), "Unknown/NotObserved");
}

#[test]
fn a_pending_roll_says_what_it_waits_for() {
    let mut world = World::settled_with_parent("{}");
    let runs = world.desired.revision.clone();
    world.change_spec(|spec| spec.image = "registry.test/valkey:9.2".to_owned());
    let status = world.pass_without_writes();
    assert_eq!(line(&status, NodeCondition::WorkloadRollPending), "True/WaitingForAuthorisation");
    assert_eq!(line(&status, NodeCondition::Progressing), "True/WaitingForAuthorisation");
    assert_eq!(line(&status, NodeCondition::LiveConfigApplied), "False/RestartRequired");
    assert_eq!(status.workload_revision, Some(runs));
    assert_eq!(status.pending_workload_revision.as_deref(), Some(world.desired.revision.as_str()));
    assert!(status.ready, "a server that waits for its roll serves as before");
    world.authorise();
    let status = world.pass_without_writes();
    assert_eq!(line(&status, NodeCondition::WorkloadRollPending), "True/Applying");
}

#[test]
fn times_move_only_with_what_they_tell() {
    let mut world = World::settled("{}");
    let since = condition(&world.status, NodeCondition::Ready).last_transition_time.clone();
    world.clock += 100;
    world.change_spec(|spec| spec.termination_grace_period_seconds = Some(31));
    let status = world.pass_without_writes();
    assert_eq!(condition(&status, NodeCondition::Ready).last_transition_time, since);
    assert_eq!(condition(&status, NodeCondition::Ready).observed_generation, Some(2));
    world.status = status;
    world.observed.server = ServerView::Loading;
    let status = world.pass_without_writes();
    assert_ne!(condition(&status, NodeCondition::Ready).last_transition_time, since);
}

#[test]
fn a_claim_of_unknown_size_is_bound_all_the_same() {
    let mut world = World::settled("persistence: {mode: external, existingClaim: theirs}");
    let mut claim = world.observed.claim.as_deref().expect("should exist").clone();
    claim.status.get_or_insert_default().capacity = None;
    world.observed.claim = Some(Arc::new(claim));
    let status = world.pass_without_writes();
    assert_eq!(line(&status, NodeCondition::PersistentVolumeClaimReady), "True/Bound");
}

#[test]
fn a_claim_that_could_not_be_read_is_unknown_and_not_missing() {
    let mut world = World::settled("persistence: {mode: external, existingClaim: theirs}");
    world.observed.claim = None;
    world.observed.claim_unreadable = Some("no answer".to_owned());
    let status = world.pass_without_writes();
    assert_eq!(line(&status, NodeCondition::PersistentVolumeClaimReady), "Unknown/NotObserved");
    assert!(status.ready, "the server serves as before");
}
