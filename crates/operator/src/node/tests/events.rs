//! Events tell transitions, once, and never a secret.

use api::ValkeyNodeStatus;
use kube::runtime::events::EventType;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::super::act::{ConfigOutcome, Outcome};
use super::super::build::Kind;
use super::super::events::between;
use super::super::observe::Collision;
use super::super::server::ServerView;
use super::super::status;
use super::super::validate::validate;
use super::pods;
use super::world::{SECRET, World, at, node, nothing_done};

/// Something that can be the matter, by what it does to a world.
type Matter = fn(&mut World);

/// `type reason` of the events from the world's status to this one.
fn told(world: &World, after: &ValkeyNodeStatus) -> Vec<String> {
    let events = between(&world.status, after);
    events
        .iter()
        .map(|event| match event.type_ {
            EventType::Normal => format!("Normal {}", event.reason),
            EventType::Warning => format!("Warning {}", event.reason),
        })
        .collect()
}

fn told_now(world: &World) -> Vec<String> {
    told(world, &world.pass_without_writes())
}

#[test]
fn an_unchanged_world_tells_nothing() {
    for spec in ["{}", "workloadType: Pod\npersistence: {size: 1Gi}\nconfig: {hz: '10'}"] {
        assert_eq!(told_now(&World::settled(spec)), Vec::<String>::new());
    }
}

#[test]
fn a_creation_tells_only_that_it_is_ready() {
    let mut world = World::settled("persistence: {size: 1Gi}");
    world.status = ValkeyNodeStatus::default();
    assert_eq!(told_now(&world), ["Normal Ready"]);
    let mut empty = World::empty(node("persistence: {size: 1Gi}"));
    assert_eq!(told_now(&empty), Vec::<String>::new(), "that there is nothing yet is no news");
    empty.status = empty.pass_without_writes();
    assert_eq!(told(&empty, &world.pass_without_writes()), ["Normal Ready", "Normal Bound"]);
}

#[test]
fn trouble_is_told_once() {
    let matters: [(&str, Matter); 5] = [
        ("Unschedulable", |world| world.pod_status(&pods::unschedulable("no room"))),
        ("ImagePullFailed", |world| world.pod_status(&pods::waiting("ErrImagePull", "not found"))),
        ("CrashLooping", |world| world.pod_status(&pods::crash_looping(1, 1, "Error", "x"))),
        ("PodNotReady", |world| world.pod_status(&pods::running_not_ready())),
        ("ServerUnreachable", |world| {
            world.observed.server = ServerView::Unreachable("no answer".to_owned());
        }),
    ];
    for (reason, matter) in matters {
        let mut world = World::settled("{}");
        matter(&mut world);
        assert_eq!(told_now(&world), [format!("Warning {reason}")]);
        world.status = world.pass_without_writes();
        assert_eq!(told_now(&world), Vec::<String>::new(), "{reason}");
    }
}

#[test]
fn a_start_that_takes_its_time_is_no_news() {
    let mut world = World::settled("{}");
    world.status = ValkeyNodeStatus::default();
    world.pod_status(&pods::running_not_ready());
    assert_eq!(told_now(&world), Vec::<String>::new());
}

#[test]
fn changes_of_the_volume_are_told() {
    let mut world = World::settled("persistence: {size: 1Gi}");
    world.meddle(Kind::PersistentVolumeClaim, |claim| {
        claim["spec"]["resources"]["requests"]["storage"] = json!("3Gi");
    });
    assert_eq!(told_now(&world), ["Normal Resizing"]);
    world.status = world.pass_without_writes();
    world.meddle(Kind::PersistentVolumeClaim, |claim| claim["status"]["capacity"]["storage"] = json!("3Gi"));
    assert_eq!(told_now(&world), ["Normal Bound"]);
    world.meddle(Kind::PersistentVolumeClaim, |claim| claim["status"]["phase"] = json!("Lost"));
    assert_eq!(told_now(&world), ["Warning ClaimLost"]);
}

#[test]
fn refusals_and_collisions_are_told() {
    let mut world = World::settled("config: {hz: '10'}");
    world.change_spec(|spec| {
        spec.config.insert("hz".to_owned(), "many".to_owned());
    });
    let refused = Outcome { config: ConfigOutcome::Refused("ERR no".to_owned()), ..nothing_done() };
    assert_eq!(told(&world, &world.status_after(&refused)), ["Warning ServerRefused"]);

    let mut world = World::empty(node("{}"));
    let holder = "somebody else".to_owned();
    world.observed.collisions.push(Collision {
        kind: Kind::Service,
        name: "valkey-alpha".to_owned(),
        holder,
    });
    assert_eq!(told_now(&world), ["Warning NameCollision"]);

    let world = World::settled("{}");
    let violations = validate(&node("config: {dir: /x}")).expect_err("should be refused");
    let invalid = status::invalid(&violations, Some(2), &world.status, at(500));
    assert_eq!(told(&world, &invalid), ["Warning InvalidSpec"]);
}

#[test]
fn a_roll_that_waits_is_told() {
    let mut world = World::settled_with_parent("{}");
    world.change_spec(|spec| spec.image = "registry.test/valkey:9.2".to_owned());
    assert_eq!(told_now(&world), ["Normal RollPending"]);
}

#[test]
fn no_event_and_no_condition_holds_a_secret() {
    let spec = format!("config: {{requirepass: {SECRET}, hz: '10'}}\nworkloadType: Pod");
    let settled = World::settled(&spec);
    let last_words = format!(">>> 'requirepass \"{SECRET}\"'\nwrong number of arguments");
    let mut crashing = settled.clone();
    crashing.pod_status(&pods::crash_looping(1, 1, "Error", &last_words));
    let mut changed = settled.clone();
    changed.change_spec(|spec| {
        spec.config.insert("requirepass".to_owned(), format!("{SECRET}-new"));
        spec.config.insert("user".to_owned(), format!("default on >{SECRET}"));
    });
    for world in [settled, crashing, changed] {
        let after = world.pass_without_writes();
        let events: Vec<String> = between(&ValkeyNodeStatus::default(), &after)
            .iter()
            .filter_map(|event| event.note.clone())
            .collect();
        let text = format!("{} {}", json!(after), events.join(" "));
        assert!(!text.contains(SECRET), "{text}");
    }
}
