//! From any world, whatever the operator was doing when it died, a few passes lead to a world that needs nothing.

use api::node::UpdateStrategy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::build::Kind;
use super::super::plan::{LiveConfig, Plan, Roll};
use super::world::{World, node, owned_node};
use super::{kubernetes, pods};

/// Passes that must be enough: remove what others added, write, replace the pod, tell the server.
const PASSES: usize = 8;

const SPECS: [&str; 5] = [
    "workloadType: StatefulSet\npersistence: {size: 1Gi}",
    "workloadType: StatefulSet\nupdateStrategy: OnDelete\nconfig: {hz: '10', databases: '4'}",
    "workloadType: Deployment\npersistence: {mode: enabled, size: 1Gi, reclaimPolicy: Delete}",
    "workloadType: Pod\npersistence: {size: 1Gi}\ntolerations: [{key: dedicated, operator: Exists}]",
    "workloadType: Pod\nconfig: {maxmemory: 100mb}",
];

/// What happened before we look.
#[derive(Clone, Debug)]
enum Mishap {
    /// An object is gone.
    Lost(u8),
    /// Somebody changed an object.
    Changed(u8, u8),
    /// The pod is in another state.
    Pod(u8),
    /// The user or the parent changed the spec.
    Spec(u8),
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        any::<u8>().prop_map(Mishap::Lost),
        (any::<u8>(), any::<u8>()).prop_map(|(object, how)| Mishap::Changed(object, how)),
        any::<u8>().prop_map(Mishap::Pod),
        any::<u8>().prop_map(Mishap::Spec),
    ]
}

fn befall(world: &mut World, mishap: &Mishap) {
    match mishap {
        Mishap::Lost(object) => lose(world, *object),
        Mishap::Changed(object, how) => meddle(world, *object, *how),
        Mishap::Pod(state) => pod_state(world, *state),
        Mishap::Spec(how) => change_spec(world, *how),
    }
}

fn lose(world: &mut World, object: u8) {
    let is_bare = world.workload_kind() == Kind::Pod;
    let observed = &mut world.observed;
    match object % 5 {
        0 => observed.service = None,
        1 => observed.config_map = None,
        2 => observed.claim = None,
        3 => {
            observed.workload = None;
            observed.pod = None;
            observed.server = super::super::server::ServerView::NotAsked;
        }
        _ if !is_bare => {
            observed.pod = None;
            observed.server = super::super::server::ServerView::NotAsked;
        }
        _ => {}
    }
}

fn meddle(world: &mut World, object: u8, how: u8) {
    let kinds = [Kind::Service, Kind::ConfigMap, Kind::PersistentVolumeClaim, world.workload_kind()];
    let kind = kinds[usize::from(object) % kinds.len()];
    if kubernetes::live(world, kind).is_none() {
        return;
    }
    let in_template = matches!(kind, Kind::StatefulSet | Kind::Deployment);
    world.meddle(kind, |live| match how % 6 {
        0 => live["metadata"]["labels"] = json!({}),
        1 => live["metadata"]["annotations"]["valkey.io/applied"] = json!("0"),
        2 if in_template => live["spec"]["replicas"] = json!(0),
        3 if in_template => {
            let containers = &mut live["spec"]["template"]["spec"]["containers"];
            containers.as_array_mut().expect("should be a list").push(json!({"name": "spy"}));
        }
        4 if in_template => live["spec"]["template"]["spec"]["containers"][0]["name"] = json!("renamed"),
        5 if kind == Kind::Service => live["spec"]["ports"] = json!([{"name": "valkey", "port": 1}]),
        5 if kind == Kind::ConfigMap => live["data"] = json!({"valkey.conf": "x"}),
        _ => live["metadata"]["annotations"]["other"] = json!("1"),
    });
}

fn pod_state(world: &mut World, state: u8) {
    if world.observed.pod.is_none() {
        return;
    }
    match state % 4 {
        0 => world.pod_status(&pods::evicted("low on memory")),
        1 => world.pod_status(&pods::ready()),
        2 => {
            world.pod_status(&pods::ready());
            world.change_pod(pods::terminating);
        }
        _ => {}
    }
}

fn change_spec(world: &mut World, how: u8) {
    match how % 5 {
        0 => world.change_spec(|spec| spec.image = "registry.test/valkey:9.2".to_owned()),
        1 => world.change_spec(|spec| {
            spec.config.insert("hz".to_owned(), "20".to_owned());
        }),
        2 => world.change_spec(|spec| {
            spec.config.insert("databases".to_owned(), "8".to_owned());
        }),
        3 => world.change_spec(|spec| spec.config.clear()),
        _ => world.change_spec(|spec| spec.priority_class_name = Some("important".to_owned())),
    }
}

fn is_done(plan: &Plan) -> bool {
    plan.writes.is_empty()
        && plan.writes_after_config.is_empty()
        && plan.step.is_none()
        && !matches!(plan.config.live, LiveConfig::Set(..))
}

/// One pass of the operator, cut off after so many of its parts, and what Kubernetes does meanwhile.
fn pass(world: &mut World, parts: usize) {
    let plan = world.plan();
    kubernetes::perform_plan(world, &plan, parts);
    kubernetes::act(world);
    world.status = world.pass_without_writes();
}

/// Passes until nothing is left to do, after Kubernetes has done what it does by itself.
fn passes_needed(world: &mut World) -> Option<usize> {
    kubernetes::act(world);
    (0..PASSES).find(|_| {
        let done = is_done(&world.plan());
        if !done {
            pass(world, usize::MAX);
        }
        done
    })
}

fn world(spec: u8, with_parent: bool, mishaps: &[Mishap]) -> World {
    let spec = SPECS[usize::from(spec) % SPECS.len()];
    let mut world = if with_parent { World::settled_with_parent(spec) } else { World::settled(spec) };
    for mishap in mishaps {
        befall(&mut world, mishap);
    }
    world
}

/// Every object has our labels and what the server has is what the spec asks for, unless a restart waits for somebody.
fn is_well(world: &World) -> bool {
    let wanted = world.wanted();
    let plan = world.plan();
    let labelled = |live: &Value| live["metadata"]["labels"]["app.kubernetes.io/instance"] == "alpha";
    let waits = matches!(plan.roll, Roll::WaitsForOwner { .. } | Roll::WaitsForDeletion { .. });
    wanted
        .iter()
        .all(|wanted| kubernetes::live(world, wanted.kind).is_some_and(|live| waits || labelled(&live)))
        && (waits || plan.roll == Roll::UpToDate)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_world_comes_to_rest(
        spec: u8,
        with_parent: bool,
        mishaps in prop::collection::vec(mishap(), 0..5),
        authorised: bool,
    ) {
        let mut world = world(spec, with_parent, &mishaps);
        if authorised {
            world.authorise();
        }
        let passes = passes_needed(&mut world);
        prop_assert!(passes.is_some(), "still busy: {:#?}", world.plan());
        prop_assert!(is_well(&world), "{:#?}", world.observed);
    }

    #[test]
    fn a_pass_that_is_cut_off_anywhere_does_not_matter(
        spec: u8,
        mishaps in prop::collection::vec(mishap(), 0..4),
        cuts in prop::collection::vec(0_usize..6, 1..4),
    ) {
        let mut world = world(spec, false, &mishaps);
        for parts in cuts {
            pass(&mut world, parts);
        }
        prop_assert!(passes_needed(&mut world).is_some(), "still busy: {:#?}", world.plan());
        prop_assert!(is_well(&world));
    }

    #[test]
    fn a_creation_that_is_cut_off_anywhere_ends_well(spec: u8, with_parent: bool, parts in 0_usize..6) {
        let spec = SPECS[usize::from(spec) % SPECS.len()];
        let node = if with_parent { owned_node(spec) } else { node(spec) };
        let mut world = World::empty(node);
        pass(&mut world, parts);
        prop_assert!(passes_needed(&mut world).is_some(), "still busy: {:#?}", world.plan());
        prop_assert!(is_well(&world));
        prop_assert!(world.status.ready);
    }

    #[test]
    fn the_order_in_which_the_api_server_lists_things_does_not_matter(
        spec: u8,
        mishaps in prop::collection::vec(mishap(), 0..4),
    ) {
        let world = world(spec, false, &mishaps);
        let mut turned = world.clone();
        let kinds = [Kind::Service, Kind::PersistentVolumeClaim, world.workload_kind()];
        for kind in kinds {
            if let Some(mut live) = kubernetes::live(&turned, kind) {
                turn_lists(&mut live);
                kubernetes::store(&mut turned, kind, live);
            }
        }
        let (plan, other) = (world.plan(), turned.plan());
        prop_assert_eq!(super::world::verbs(&plan), super::world::verbs(&other));
        prop_assert_eq!(plan.step.is_some(), other.step.is_some());
        prop_assert_eq!(plan.config, other.config);
        prop_assert_eq!(plan.roll, other.roll);
    }
}

/// Lists of named things may come in any order.
fn turn_lists(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(turn_lists),
        Value::Array(items) => {
            items.iter_mut().for_each(turn_lists);
            if items.iter().all(|item| item.get("name").is_some()) {
                items.reverse();
            }
        }
        _ => {}
    }
}

#[test]
fn a_converged_world_is_left_alone_forever() {
    for spec in SPECS {
        let mut world = World::settled(spec);
        let before = (world.observed.clone(), world.status.clone());
        for _ in 0..3 {
            assert!(is_done(&world.plan()), "{spec}");
            pass(&mut world, usize::MAX);
        }
        assert_eq!((world.observed, world.status), before, "{spec}");
    }
}

#[test]
fn a_roll_without_permission_rests_and_goes_on_when_allowed() {
    for spec in SPECS {
        let mut world = World::settled_with_parent(spec);
        world.change_spec(|spec| spec.image = "registry.test/valkey:9.2".to_owned());
        assert_eq!(passes_needed(&mut world), Some(0), "{spec}");
        world.authorise();
        assert!(passes_needed(&mut world).is_some(), "{spec}");
        let rests = match world.node.spec.update_strategy {
            UpdateStrategy::RollingUpdate => world.plan().roll == Roll::UpToDate,
            UpdateStrategy::OnDelete => matches!(world.plan().roll, Roll::WaitsForDeletion { .. }),
        };
        assert!(rests, "{spec}: {:?}", world.plan().roll);
    }
}
