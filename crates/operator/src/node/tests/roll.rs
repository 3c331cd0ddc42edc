//! When a changed template reaches the pod: at once, when the parent allows it, or when somebody deletes the pod.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::super::build::Kind;
use super::super::plan::{Roll, Step, Write};
use super::world::{World, writes};
use super::{kubernetes, pods};

const SETS: [Kind; 2] = [Kind::StatefulSet, Kind::Deployment];
const OTHER_IMAGE: &str = "registry.test/valkey:9.2";

fn spec_of(kind: Kind) -> String {
    format!("workloadType: {}", kind.name())
}

fn with_another_image(mut world: World) -> World {
    world.change_spec(|spec| OTHER_IMAGE.clone_into(&mut spec.image));
    world
}

fn rolling(world: &World) -> Roll {
    Roll::Rolling { revision: world.desired.revision.clone() }
}

fn delete_of(world: &World, because: &'static str) -> Step {
    let meta = &world.observed.pod.as_ref().expect("should have a pod").metadata;
    Step::DeletePod {
        name: "valkey-alpha-0".to_owned(),
        uid: meta.uid.clone().expect("should have a uid"),
        resource_version: meta.resource_version.clone().expect("should have a version"),
        because,
    }
}

#[test]
fn a_node_without_a_parent_rolls_at_once() {
    for kind in SETS {
        let world = with_another_image(World::settled(&spec_of(kind)));
        let plan = world.plan();
        assert_eq!(plan.roll, rolling(&world));
        assert!(writes(&plan).contains(&format!("apply {}", kind.name())), "{plan:?}");
        assert_eq!(plan.step, None);
    }
}

#[test]
fn a_node_with_a_parent_waits_for_exactly_the_pending_revision() {
    for kind in SETS {
        let mut world = with_another_image(World::settled_with_parent(&spec_of(kind)));
        let waiting = Roll::WaitsForOwner { revision: world.desired.revision.clone() };
        assert_eq!((writes(&world.plan()), world.plan().roll), (Vec::new(), waiting.clone()));
        world.change_spec(|spec| spec.workload_revision = Some("0123456789".to_owned()));
        assert_eq!((writes(&world.plan()), world.plan().roll), (Vec::new(), waiting));
        world.authorise();
        let plan = world.plan();
        assert_eq!(plan.roll, rolling(&world));
        assert!(writes(&plan).contains(&format!("apply {}", kind.name())), "{plan:?}");
    }
}

#[test]
fn while_a_roll_waits_everything_but_the_template_is_put_back() {
    for kind in SETS {
        let mut world = with_another_image(World::settled_with_parent(&spec_of(kind)));
        let template = kubernetes::live(&world, kind).expect("should exist")["spec"]["template"].clone();
        world.meddle(kind, |object| {
            object["spec"]["replicas"] = json!(0);
            let second = json!({"uid": "2", "kind": "X", "name": "x", "apiVersion": "v1"});
            object["metadata"]["ownerReferences"].as_array_mut().expect("should be a list").push(second);
        });
        let seen = kubernetes::live(&world, kind).expect("should exist");
        let plan = world.plan();
        let [Write::Merge { body, .. }] = plan.writes_after_config.as_slice() else {
            panic!("should be one merge: {plan:?}")
        };
        assert_eq!(body["metadata"]["resourceVersion"], seen["metadata"]["resourceVersion"]);
        kubernetes::perform_plan(&mut world, &plan, usize::MAX);
        let after = kubernetes::live(&world, kind).expect("should exist");
        assert_eq!(after["spec"]["replicas"], 1);
        assert_eq!(after["spec"]["template"], template);
        assert_eq!(after["metadata"]["ownerReferences"], seen["metadata"]["ownerReferences"]);
        assert_eq!(writes(&world.plan()), Vec::<String>::new(), "once is enough");
    }
}

#[test]
fn with_on_delete_the_template_is_written_and_the_pod_stays_until_it_is_deleted() {
    let mut world = with_another_image(World::settled("updateStrategy: OnDelete"));
    let plan = world.plan();
    assert!(writes(&plan).contains(&"apply StatefulSet".to_owned()), "{plan:?}");
    kubernetes::perform_plan(&mut world, &plan, usize::MAX);
    kubernetes::act(&mut world);
    let waiting = Roll::WaitsForDeletion { revision: world.desired.revision.clone() };
    let plan = world.plan();
    assert_eq!((writes(&plan), plan.step, plan.roll), (Vec::new(), None, waiting));
    world.observed.pod = None;
    kubernetes::act(&mut world);
    assert_eq!(world.plan().roll, Roll::UpToDate);
}

#[test]
fn a_template_that_is_in_place_is_rolling_until_the_pod_has_it() {
    let mut world = with_another_image(World::settled("{}"));
    let plan = world.plan();
    kubernetes::perform_plan(&mut world, &plan, usize::MAX);
    assert_eq!(world.plan().roll, rolling(&world));
    kubernetes::act(&mut world);
    assert_eq!(world.plan().roll, Roll::UpToDate);
}

#[test]
fn a_bare_pod_of_another_revision_is_deleted_when_that_is_allowed() {
    let world = with_another_image(World::settled("workloadType: Pod"));
    let plan = world.plan();
    assert_eq!(plan.step, Some(delete_of(&world, "the pod template changed")));
    assert!(!writes(&plan).contains(&"apply Pod".to_owned()), "a pod is not changed in place: {plan:?}");

    let mut world = with_another_image(World::settled_with_parent("workloadType: Pod"));
    assert_eq!((writes(&world.plan()), world.plan().step), (Vec::new(), None));
    world.authorise();
    assert_eq!(world.plan().step, Some(delete_of(&world, "the pod template changed")));

    let world = with_another_image(World::settled("workloadType: Pod\nupdateStrategy: OnDelete"));
    let waiting = Roll::WaitsForDeletion { revision: world.desired.revision.clone() };
    assert_eq!((world.plan().step, world.plan().roll), (None, waiting));
}

#[test]
fn a_bare_pod_that_has_ended_is_replaced_whoever_owns_the_node() {
    for state in [pods::evicted("low on memory"), pods::succeeded()] {
        for mut world in
            [World::settled("workloadType: Pod"), World::settled_with_parent("workloadType: Pod")]
        {
            world.pod_status(&state);
            assert_eq!(world.plan().step, Some(delete_of(&world, "the pod has ended")));
        }
        // A pod that has ended runs nothing: replacing it by the newest template disturbs nobody.
        let mut world = with_another_image(World::settled_with_parent("workloadType: Pod"));
        world.pod_status(&state);
        assert_eq!(world.plan().step, Some(delete_of(&world, "the pod has ended")));
    }
}

#[test]
fn a_pod_that_is_going_is_waited_for() {
    for mut world in [
        World::settled("workloadType: Pod"),
        with_another_image(World::settled("workloadType: Pod")),
        World::settled_with_parent("workloadType: Pod"),
    ] {
        world.pod_status(&pods::evicted("low on memory"));
        world.change_pod(pods::terminating);
        let plan = world.plan();
        assert_eq!(plan.step, None);
        assert!(writes(&plan).iter().all(|write| write == "apply ConfigMap"), "{plan:?}");
    }
}

#[test]
fn a_failed_pod_of_a_stateful_set_is_its_controllers_business() {
    let mut world = World::settled("{}");
    world.pod_status(&pods::evicted("low on memory"));
    assert_eq!((writes(&world.plan()), world.plan().step), (Vec::new(), None));
}
