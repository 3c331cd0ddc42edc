//! Which writes a world needs: everything when there is nothing, nothing when all is well, and exactly the right one
//! for each kind of drift.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::super::build::Kind;
use super::super::observe::Collision;
use super::super::plan::{LiveConfig, Roll, Write};
use super::pods;
use super::world::{World, node, writes};

const VOLUME: &str = "persistence: {mode: enabled, size: 1Gi, reclaimPolicy: Delete}\n";

fn all_types() -> impl Iterator<Item = (String, Kind)> {
    [("StatefulSet", Kind::StatefulSet), ("Deployment", Kind::Deployment), ("Pod", Kind::Pod)]
        .into_iter()
        .map(|(name, kind)| (format!("{VOLUME}workloadType: {name}"), kind))
}

fn assert_settled(world: &World, why: &str) {
    let plan = world.plan();
    assert_eq!(writes(&plan), Vec::<String>::new(), "{why}: {plan:#?}");
    assert_eq!(plan.step, None, "{why}");
    assert_eq!(plan.roll, Roll::UpToDate, "{why}");
    assert!(matches!(plan.config.live, LiveConfig::Settled(_)), "{why}");
}

#[test]
fn what_does_not_exist_is_created_volume_first_and_workload_last() {
    for (spec, workload) in all_types() {
        let plan = World::empty(node(&spec)).plan();
        let workload = format!("create {}", workload.name());
        let expected =
            ["create PersistentVolumeClaim", "create Service", "create ConfigMap", workload.as_str()];
        assert_eq!(writes(&plan), expected);
        assert_eq!((plan.step, plan.roll), (None, Roll::UpToDate));
        assert_eq!(plan.config.live, LiveConfig::NotObserved);
    }
}

#[test]
fn without_a_volume_of_its_own_a_node_makes_no_claim() {
    for spec in ["{}", "persistence: {mode: external, existingClaim: theirs}"] {
        let plan = World::empty(node(spec)).plan();
        assert_eq!(writes(&plan), ["create Service", "create ConfigMap", "create StatefulSet"], "{spec}");
    }
}

#[test]
fn a_world_that_is_as_wanted_needs_no_write_and_no_step() {
    for (spec, _) in all_types() {
        assert_settled(&World::settled(&spec), &spec);
        assert_settled(&World::settled_with_parent(&spec), &spec);
    }
    assert_settled(&World::settled(super::objects::FULL), "everything in the spec");
    assert_settled(&World::settled("persistence: {mode: external, existingClaim: theirs}"), "external");
}

/// Something somebody does to an object, and the write that puts it back.
type Case = (&'static str, Kind, Meddling, &'static str);

type Meddling = fn(&mut Value);

const DRIFT: [Case; 18] = [
    (
        "another selector",
        Kind::Service,
        |o| o["spec"]["selector"]["app.kubernetes.io/instance"] = json!("x"),
        "apply Service",
    ),
    ("a narrower selector", Kind::Service, |o| o["spec"]["selector"]["role"] = json!("x"), "apply Service"),
    (
        "unpublished addresses",
        Kind::Service,
        |o| o["spec"]["publishNotReadyAddresses"] = json!(false),
        "apply Service",
    ),
    (
        "another port",
        Kind::Service,
        |o| o["spec"]["ports"][0]["port"] = json!(1),
        "remove /spec/ports/0 from Service",
    ),
    (
        "one more port",
        Kind::Service,
        |o| push(&mut o["spec"]["ports"], json!({"name": "x", "port": 80})),
        "remove /spec/ports/1 from Service",
    ),
    ("another file", Kind::ConfigMap, |o| o["data"]["valkey.conf"] = json!("port 1\n"), "apply ConfigMap"),
    ("no file", Kind::ConfigMap, |o| o["data"] = json!({}), "apply ConfigMap"),
    (
        "a removed label",
        Kind::ConfigMap,
        |o| remove(&mut o["metadata"]["labels"], "app.kubernetes.io/name"),
        "apply ConfigMap",
    ),
    (
        "no owner",
        Kind::PersistentVolumeClaim,
        |o| remove(&mut o["metadata"], "ownerReferences"),
        "apply PersistentVolumeClaim",
    ),
    ("no replica", Kind::StatefulSet, |o| o["spec"]["replicas"] = json!(0), "apply StatefulSet"),
    ("another image", Kind::StatefulSet, |o| server(o)["image"] = json!("x"), "apply StatefulSet"),
    (
        "a foreign container",
        Kind::StatefulSet,
        |o| push(&mut pod(o)["containers"], json!({"name": "spy"})),
        "remove /spec/template/spec/containers/1 from StatefulSet",
    ),
    (
        "a foreign init container",
        Kind::StatefulSet,
        |o| pod(o)["initContainers"] = json!([{"name": "spy"}]),
        "remove /spec/template/spec/initContainers/0 from StatefulSet",
    ),
    (
        "a foreign volume",
        Kind::StatefulSet,
        |o| push(&mut pod(o)["volumes"], json!({"name": "spy"})),
        "remove /spec/template/spec/volumes/3 from StatefulSet",
    ),
    (
        "a foreign variable",
        Kind::StatefulSet,
        |o| server(o)["env"] = json!([{"name": "SPY"}]),
        "remove /spec/template/spec/containers/0/env/0 from StatefulSet",
    ),
    (
        "a foreign container port",
        Kind::StatefulSet,
        |o| push(&mut server(o)["ports"], json!({"containerPort": 80})),
        "remove /spec/template/spec/containers/0/ports/1 from StatefulSet",
    ),
    (
        "another grace period",
        Kind::StatefulSet,
        |o| pod(o)["terminationGracePeriodSeconds"] = json!(0),
        "apply StatefulSet",
    ),
    (
        "a removed annotation",
        Kind::StatefulSet,
        |o| remove(&mut o["metadata"]["annotations"], "valkey.io/applied"),
        "apply StatefulSet",
    ),
];

fn pod(object: &mut Value) -> &mut Value {
    &mut object["spec"]["template"]["spec"]
}

fn server(object: &mut Value) -> &mut Value {
    &mut pod(object)["containers"][0]
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().expect("should be a list").push(item);
}

fn remove(object: &mut Value, key: &str) {
    object.as_object_mut().expect("should be an object").remove(key).expect("should have been there");
}

#[test]
fn each_drift_is_put_back_by_exactly_one_write() {
    for (why, kind, meddle, expected) in DRIFT {
        let mut world = World::settled(VOLUME);
        world.meddle(kind, meddle);
        let plan = world.plan();
        assert_eq!(writes(&plan), [expected], "{why}");
        assert_eq!(plan.step, None, "{why}");
    }
}

#[test]
fn drift_of_a_deployment_is_put_back_too() {
    for (change, expected) in [
        (json!({"replicas": 3}), "apply Deployment"),
        (json!({"strategy": {"type": "RollingUpdate"}}), "apply Deployment"),
    ] {
        let mut world = World::settled("workloadType: Deployment");
        world.meddle(Kind::Deployment, |object| {
            for (key, value) in change.as_object().expect("should be an object") {
                object["spec"][key] = value.clone();
            }
        });
        assert_eq!(writes(&world.plan()), [expected], "{change}");
    }
}

#[test]
fn a_write_says_what_differed() {
    let mut world = World::settled(VOLUME);
    world.meddle(Kind::Service, |object| object["spec"]["publishNotReadyAddresses"] = json!(false));
    let plan = world.plan();
    let [Write::Apply { because, create: false, .. }] = plan.writes.as_slice() else {
        panic!("should be one update: {plan:?}")
    };
    assert_eq!(because, &["spec.publishNotReadyAddresses"]);
}

#[test]
fn items_are_removed_only_from_the_version_that_was_seen() {
    let mut world = World::settled(VOLUME);
    world.meddle(Kind::StatefulSet, |object| server(object)["env"] = json!([{"name": "SPY"}]));
    let plan = world.plan();
    let [Write::RemoveItems { resource_version, .. }] = plan.writes_after_config.as_slice() else {
        panic!("should be one removal: {plan:?}")
    };
    assert_eq!(*resource_version, world.clock.to_string());
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let untouched: [(&str, Meddling); 5] = [
        ("annotation", |o| o["metadata"]["annotations"]["other"] = json!("1")),
        ("label", |o| o["metadata"]["labels"]["other"] = json!("1")),
        ("finalizer", |o| o["metadata"]["finalizers"] = json!(["other/x"])),
        ("second owner", |o| {
            push(
                &mut o["metadata"]["ownerReferences"],
                json!({"uid": "2", "kind": "X", "name": "x", "apiVersion": "v1"}),
            );
        }),
        ("status", |o| o["status"]["conditions"] = json!([])),
    ];
    for (spec, workload) in all_types() {
        for kind in [Kind::PersistentVolumeClaim, Kind::Service, workload] {
            for (why, change) in untouched {
                let mut world = World::settled(&spec);
                world.meddle(kind, change);
                assert_settled(&world, &format!("{why} of {}", kind.name()));
            }
        }
    }
    let mut world = World::settled(VOLUME);
    world.meddle(Kind::ConfigMap, |object| object["data"]["notes"] = json!("somebody's"));
    assert_settled(&world, "another key of the ConfigMap");
}

#[test]
fn a_restart_by_hand_is_not_undone() {
    for kind in [Kind::StatefulSet, Kind::Deployment] {
        let mut world = World::settled(&format!("workloadType: {}", kind.name()));
        world.meddle(kind, |object| {
            object["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] =
                json!("2026-11-15T20:30:54Z");
        });
        assert_settled(&world, kind.name());
    }
}

#[test]
fn a_field_that_left_the_spec_is_taken_out() {
    let mut world = World::settled("priorityClassName: important\nnodeSelector: {a: b}");
    world.change_spec(|spec| spec.priority_class_name = None);
    assert_eq!(writes(&world.plan()), ["apply StatefulSet"]);
    let mut world = World::settled(VOLUME);
    world.change_spec(|spec| {
        spec.persistence.as_mut().expect("should be given").reclaim_policy = None;
    });
    assert_eq!(writes(&world.plan()), ["apply PersistentVolumeClaim"], "the claim loses its owner");
}

#[test]
fn what_is_being_deleted_is_not_written_and_not_created_beside() {
    for (spec, workload) in all_types() {
        for kind in [Kind::PersistentVolumeClaim, Kind::Service, Kind::ConfigMap, workload] {
            let mut world = World::settled(&spec);
            world.meddle(kind, |object| {
                object["metadata"]["deletionTimestamp"] = json!("2026-11-15T20:30:54Z");
                object["metadata"]["labels"] = json!({});
            });
            let plan = world.plan();
            assert_eq!(writes(&plan), Vec::<String>::new(), "{} of {}", kind.name(), workload.name());
            assert_eq!(plan.step, None);
        }
    }
}

#[test]
fn a_collision_stops_every_write() {
    for (spec, _) in all_types() {
        let mut world = World::empty(node(&spec));
        let holder = "ValkeyCluster gamma".to_owned();
        let name = "valkey-alpha".to_owned();
        world.observed.collisions.push(Collision { kind: Kind::Service, name, holder });
        let plan = world.plan();
        assert_eq!((writes(&plan), plan.step), (Vec::new(), None));
    }
}

fn claim_of(world: &World) -> Vec<Value> {
    let plan = world.plan();
    let claims = plan.writes.iter().filter_map(|write| match write {
        Write::Apply { wanted, .. } if wanted.kind == Kind::PersistentVolumeClaim => Some(&wanted.body),
        _ => None,
    });
    claims.map(|body| body["spec"].clone()).collect()
}

#[test]
fn a_claim_grows_with_the_spec_and_never_shrinks() {
    let mut world = World::settled("persistence: {size: 2Gi}");
    let grow = |world: &mut World, size: &str| {
        world.change_spec(|spec| {
            spec.persistence.as_mut().expect("should be given").size = Some(size.to_owned());
        });
    };
    grow(&mut world, "2048Mi");
    let sizes = |world: &World| -> Vec<Value> {
        claim_of(world).iter().map(|spec| spec["resources"]["requests"]["storage"].clone()).collect()
    };
    assert!(sizes(&world).iter().all(|size| size == "2048Mi"), "the same amount: {:?}", sizes(&world));
    grow(&mut world, "3Gi");
    assert_eq!(sizes(&world), ["3Gi"]);
    world.meddle(Kind::PersistentVolumeClaim, |claim| {
        claim["spec"]["resources"]["requests"]["storage"] = json!("5Gi");
    });
    assert!(sizes(&world).iter().all(|size| size == "5Gi"), "grown by hand: {:?}", sizes(&world));
}

#[test]
fn a_claim_that_somebody_grew_is_as_wanted() {
    let mut world = World::settled("persistence: {size: 2Gi}");
    world.meddle(Kind::PersistentVolumeClaim, |claim| {
        claim["spec"]["resources"]["requests"]["storage"] = json!("5Gi");
    });
    assert_settled(&world, "a claim of 5Gi where 2Gi are asked for");
}

#[test]
fn the_class_that_the_cluster_chose_stays() {
    let mut world = World::settled("persistence: {size: 2Gi}");
    assert_eq!(claim_of(&world), Vec::<Value>::new(), "nothing to write because of a default");
    world.meddle(Kind::PersistentVolumeClaim, |claim| claim["metadata"]["labels"] = json!({}));
    let written = claim_of(&world);
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["storageClassName"], "standard");
}

#[test]
fn an_external_claim_is_never_written() {
    let mut world = World::settled("persistence: {mode: external, existingClaim: theirs}");
    world.meddle(Kind::PersistentVolumeClaim, |claim| claim["metadata"]["labels"] = json!({"x": "y"}));
    assert_settled(&world, "their claim");
    world.observed.claim = None;
    assert_eq!(writes(&world.plan()), Vec::<String>::new());
}

#[test]
fn what_admission_adds_to_a_pod_is_not_drift() {
    for spec in ["workloadType: Pod", "workloadType: Pod\ntolerations: [{key: dedicated, operator: Exists}]"]
    {
        let mut world = World::settled(spec);
        assert_settled(&world, spec);
        world.meddle(Kind::Pod, |object| {
            push(&mut object["spec"]["containers"], json!({"name": "mesh", "image": "m"}));
            push(&mut object["spec"]["volumes"], json!({"name": "mesh"}));
            object["spec"]["containers"][0]["env"] = json!([{"name": "MESH", "value": "1"}]);
        });
        assert_settled(&world, "an injected container cannot be taken out of a pod");
    }
}

#[test]
fn the_little_that_can_change_in_a_pod_is_put_back() {
    let spec = "workloadType: Pod\ntolerations: [{key: dedicated, operator: Exists}]";
    let drift: [fn(&mut Value); 2] = [
        |object| object["metadata"]["labels"] = json!({}),
        |object| object["spec"]["containers"][0]["image"] = json!("x"),
    ];
    for change in drift {
        let mut world = World::settled(spec);
        world.meddle(Kind::Pod, change);
        let plan = world.plan();
        let [Write::Apply { wanted, create: false, .. }] = plan.writes_after_config.as_slice() else {
            panic!("should be one update: {plan:?}")
        };
        assert_eq!(
            wanted.body["spec"]["tolerations"],
            super::kubernetes::live(&world, Kind::Pod).expect("should exist")["spec"]["tolerations"],
            "a pod's tolerations can only grow, and admission had added some"
        );
        assert_eq!(plan.step, None);
    }
}

#[test]
fn a_pod_that_is_not_ready_is_no_reason_to_write() {
    for (spec, _) in all_types() {
        let mut world = World::settled(&spec);
        world.pod_status(&pods::running_not_ready());
        let plan = world.plan();
        assert_eq!((writes(&plan), plan.step), (Vec::new(), None));
    }
}

#[test]
fn another_strategy_is_written_without_another_pod() {
    let mut world = World::settled("{}");
    world.change_spec(|spec| spec.update_strategy = api::node::UpdateStrategy::OnDelete);
    let plan = world.plan();
    assert_eq!((writes(&plan), plan.roll), (vec!["apply StatefulSet".to_owned()], Roll::UpToDate));
}

/// The API server keeps the name in a deprecated field of nobody's, and fills it in from there.
#[test]
fn an_account_that_is_not_asked_for_any_more_is_taken_back() {
    for kind in ["StatefulSet", "Deployment"] {
        let mut world = World::settled(&format!("workloadType: {kind}"));
        let name_account = |world: &mut World, account: &str| {
            world.meddle(world.workload_kind(), |workload| {
                workload["spec"]["template"]["spec"]["serviceAccountName"] = json!(account);
                workload["spec"]["template"]["spec"]["serviceAccount"] = json!(account);
            });
        };
        name_account(&mut world, "nobody");
        let plan = world.plan();
        let [Write::Apply { wanted, .. }] = plan.writes_after_config.as_slice() else { panic!("{plan:#?}") };
        assert_eq!(wanted.body["spec"]["template"]["spec"]["serviceAccountName"], json!("default"));
        name_account(&mut world, "default");
        assert_settled(&world, "the account every pod has");
    }
}
