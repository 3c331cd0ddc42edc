//! What the running server is told, what waits for its next start, and when the file it would start from may change.

use std::collections::BTreeMap;

use api::condition::{NodeCondition, NodeReason};
use pretty_assertions::assert_eq;

use super::super::act::{ConfigOutcome, Outcome};
use super::super::plan::{LiveConfig, Roll};
use super::super::server::ServerView;
use super::pods;
use super::world::{World, nothing_done, writes};

const REFUSAL: &str = "ERR CONFIG SET failed - argument couldn't be parsed";

fn directives(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn wanting(world: &mut World, pairs: &[(&str, &str)]) {
    world.change_spec(|spec| spec.config = directives(pairs));
}

/// The directives the server is to be told.
fn told(world: &World) -> Vec<(String, String)> {
    match world.plan().config.live {
        LiveConfig::Set(directives, _) => directives,
        other => panic!("should be told something: {other:?}"),
    }
}

fn after(world: &mut World, config: ConfigOutcome) {
    world.status = world.status_after(&Outcome { config, ..nothing_done() });
}

fn settled() -> World {
    World::settled("config: {maxmemory: 100mb, hz: '10'}")
}

fn refused() -> World {
    let mut world = settled();
    wanting(&mut world, &[("maxmemory", "100mb"), ("hz", "many")]);
    assert_eq!(told(&world).len(), 1);
    after(&mut world, ConfigOutcome::Refused(REFUSAL.to_owned()));
    world
}

fn is_settled(world: &World) -> bool {
    matches!(world.plan().config.live, LiveConfig::Settled(_))
}

#[test]
fn values_that_mean_the_same_are_not_set() {
    let mut world = settled();
    world.status.running_config = None;
    world.change_facts(|facts| facts.config = directives(&[("maxmemory", "104857600"), ("hz", "10")]));
    assert!(is_settled(&world));
    assert_eq!(writes(&world.plan()), Vec::<String>::new());
}

#[test]
fn a_changed_directive_is_set_live_before_the_file_is_written() {
    let mut world = settled();
    wanting(&mut world, &[("maxmemory", "200mb"), ("hz", "10")]);
    assert_eq!(told(&world), [("maxmemory".to_owned(), "200mb".to_owned())]);
    let plan = world.plan();
    assert_eq!(plan.writes, []);
    assert_eq!(writes(&plan), ["apply ConfigMap"]);
    assert_eq!((plan.roll, plan.step), (Roll::UpToDate, None));
    after(&mut world, ConfigOutcome::Accepted);
    assert!(is_settled(&world));
}

#[test]
fn a_value_that_is_reported_in_an_unknown_way_is_set_once() {
    let mut world = settled();
    wanting(&mut world, &[("search.threads", "2")]);
    assert_eq!(told(&world), [("search.threads".to_owned(), "2".to_owned())]);
    after(&mut world, ConfigOutcome::Accepted);
    assert!(is_settled(&world));
}

#[test]
fn a_server_that_could_not_be_told_is_told_again() {
    let mut world = settled();
    wanting(&mut world, &[("maxmemory", "200mb"), ("hz", "10")]);
    after(&mut world, ConfigOutcome::Failed("no answer".to_owned()));
    assert_eq!(told(&world).len(), 1);
}

#[test]
fn a_directive_for_the_start_changes_the_template_and_waits() {
    let mut world = World::settled_with_parent("config: {databases: '4', hz: '10'}");
    wanting(&mut world, &[("databases", "8"), ("hz", "10")]);
    let plan = world.plan();
    assert!(matches!(plan.config.live, LiveConfig::Settled(_)), "nothing can be set: {plan:?}");
    assert_eq!(plan.config.awaiting_restart, ["databases"]);
    assert!(matches!(plan.roll, Roll::WaitsForOwner { .. }));
    world.authorise();
    let plan = world.plan();
    assert_eq!(writes(&plan), ["apply ConfigMap", "apply StatefulSet"]);
}

#[test]
fn a_removed_directive_works_until_the_next_start() {
    let mut world = settled();
    wanting(&mut world, &[("hz", "10")]);
    let plan = world.plan();
    assert!(matches!(plan.config.live, LiveConfig::Settled(_)));
    assert_eq!(plan.config.awaiting_restart, ["maxmemory"]);
    assert_eq!(plan.roll, Roll::UpToDate, "a removed directive is no reason to restart");
    assert_eq!(writes(&plan), ["apply ConfigMap"]);
    world.status = world.pass_without_writes();
    assert_eq!(world.plan().config.awaiting_restart, ["maxmemory"], "and is not forgotten");
    world.change_facts(|facts| facts.run_id = "another".to_owned());
    assert_eq!(world.plan().config.awaiting_restart, Vec::<String>::new(), "the next start forgets it");
}

#[test]
fn a_refused_value_is_not_offered_again_to_the_same_server() {
    let mut world = refused();
    for _ in 0..3 {
        assert_eq!(world.plan().config.live, LiveConfig::Refused(REFUSAL.to_owned()));
        world.status = world.pass_without_writes();
    }
}

#[test]
fn a_refused_value_stays_refused_whatever_else_changes_until_it_changes_itself() {
    let mut world = refused();
    world.change_spec(|spec| spec.termination_grace_period_seconds = Some(31));
    assert_eq!(world.plan().config.live, LiveConfig::Refused(REFUSAL.to_owned()));
    world.observed.server = ServerView::NotAsked;
    assert_eq!(world.plan().config.live, LiveConfig::RefusedBefore(REFUSAL.to_owned()), "nor in the file");
    let mut world = refused();
    world.change_spec(|spec| {
        spec.config.insert("hz".to_owned(), "several".to_owned());
    });
    assert_eq!(told(&world), [("hz".to_owned(), "several".to_owned())]);
}

#[test]
fn a_refused_value_is_offered_once_to_every_run_of_the_server() {
    let mut world = refused();
    world.change_facts(|facts| facts.run_id = "another".to_owned());
    assert_eq!(told(&world).len(), 1, "another server may think otherwise");
    after(&mut world, ConfigOutcome::Refused(REFUSAL.to_owned()));
    assert_eq!(world.plan().config.live, LiveConfig::Refused(REFUSAL.to_owned()));
}

#[test]
fn a_refused_value_never_reaches_the_file() {
    let world = refused();
    assert_eq!(writes(&world.plan()), Vec::<String>::new());
}

#[test]
fn a_refused_value_does_not_reach_the_file_while_the_server_is_silent() {
    for silence in
        [ServerView::NotAsked, ServerView::Unreachable("no answer".to_owned()), ServerView::Loading]
    {
        let mut world = refused();
        for _ in 0..2 {
            world.observed.server = silence.clone();
            assert_eq!(writes(&world.plan()), Vec::<String>::new(), "{silence:?}");
            world.status = world.pass_without_writes();
            let condition = world.status.condition(NodeCondition::LiveConfigApplied);
            let reason: &'static str = NodeReason::ServerRefused.into();
            assert_eq!(condition.expect("should be said").reason, reason, "{silence:?}");
        }
    }
}

#[test]
fn a_refusal_does_not_keep_a_pod_from_being_replaced() {
    let mut world = World::settled("workloadType: Pod\nconfig: {hz: '10'}");
    wanting(&mut world, &[("hz", "many")]);
    after(&mut world, ConfigOutcome::Refused(REFUSAL.to_owned()));
    world.pod_status(&pods::evicted("low on memory"));
    assert!(world.plan().step.is_some());
    world.observed.pod = None;
    world.observed.workload = None;
    assert_eq!(writes(&world.plan()), ["create Pod"]);
}

#[test]
fn a_corrected_value_reaches_server_and_file() {
    let mut world = refused();
    wanting(&mut world, &[("maxmemory", "100mb"), ("hz", "50")]);
    assert_eq!(told(&world), [("hz".to_owned(), "50".to_owned())]);
    assert_eq!(writes(&world.plan()), ["apply ConfigMap"]);
}

#[test]
fn directives_for_another_image_are_left_to_it() {
    let mut world = World::settled_with_parent("config: {hz: '10'}");
    world.change_spec(|spec| {
        spec.image = "registry.test/valkey:9.2".to_owned();
        spec.config = directives(&[("hz", "20")]);
    });
    let plan = world.plan();
    assert_eq!(plan.config.live, LiveConfig::Deferred);
    assert_eq!(writes(&plan), Vec::<String>::new(), "the old server may restart from the file");
    world.authorise();
    assert_eq!(writes(&world.plan()), ["apply ConfigMap", "apply StatefulSet"]);
}

#[test]
fn without_a_server_to_ask_the_file_is_written() {
    let mut world = settled();
    wanting(&mut world, &[("hz", "50")]);
    world.pod_status(&pods::running_not_ready());
    assert_eq!(world.plan().config.live, LiveConfig::NotObserved);
    assert_eq!(writes(&world.plan()), ["apply ConfigMap"]);
}

#[test]
fn the_file_of_a_roll_that_is_not_allowed_stays_back_while_the_server_is_silent() {
    let changes: [fn(&mut api::ValkeyNodeSpec); 2] = [
        |spec| spec.image = "registry.test/valkey:9.2".to_owned(),
        |spec| {
            spec.config.insert("databases".to_owned(), "8".to_owned());
        },
    ];
    for change in changes {
        let mut world = World::settled_with_parent("config: {databases: '4'}");
        world.change_spec(|spec| {
            change(spec);
            spec.config.insert("save".to_owned(), "900 1".to_owned());
        });
        world.pod_status(&pods::running_not_ready());
        assert_eq!(writes(&world.plan()), Vec::<String>::new(), "the old server may be starting from it");
        world.authorise();
        assert_eq!(writes(&world.plan()), ["apply ConfigMap", "apply StatefulSet"]);
    }
}

#[test]
fn the_file_waits_with_the_directives_that_need_a_restart() {
    let mut world = World::settled_with_parent("config: {databases: '4'}");
    wanting(&mut world, &[("databases", "8")]);
    assert_eq!(writes(&world.plan()), Vec::<String>::new());
    world.authorise();
    assert_eq!(writes(&world.plan()), ["apply ConfigMap", "apply StatefulSet"]);
}
