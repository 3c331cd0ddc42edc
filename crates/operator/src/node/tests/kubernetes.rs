//! Kubernetes as far as a node sees it: what the API server makes of a write, and what the controllers and kubelets do
//! with the objects.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use kube::Resource as _;
use serde_json::{Map, Value, json};

use super::super::build::{Kind, Wanted};
use super::super::observe::Workload;
use super::super::plan::{LiveConfig, Plan, Step, Write};
use super::super::server::ServerView;
use super::pods;
use super::world::{NAMESPACE, World, primary};

/// The object of a kind, as the API server shows it.
pub(super) fn live(world: &World, kind: Kind) -> Option<Value> {
    let observed = &world.observed;
    let value = match kind {
        Kind::PersistentVolumeClaim => serde_json::to_value(observed.claim.as_deref()?),
        Kind::Service => serde_json::to_value(observed.service.as_deref()?),
        Kind::ConfigMap => serde_json::to_value(observed.config_map.as_deref()?),
        Kind::StatefulSet | Kind::Deployment | Kind::Pod => match observed.workload.as_ref()? {
            Workload::StatefulSet(set) => serde_json::to_value(set.as_ref()),
            Workload::Deployment(deployment) => serde_json::to_value(deployment.as_ref()),
            Workload::Pod(pod) => serde_json::to_value(pod.as_ref()),
        },
        other => panic!("a node has no {}", other.name()),
    };
    Some(value.expect("should be JSON"))
}

/// Put an object in place, under a new version.
pub(super) fn store(world: &mut World, kind: Kind, mut object: Value) {
    object["metadata"]["resourceVersion"] = json!(world.tick().to_string());
    let observed = &mut world.observed;
    match kind {
        Kind::PersistentVolumeClaim => observed.claim = Some(typed(object)),
        Kind::Service => observed.service = Some(typed(object)),
        Kind::ConfigMap => observed.config_map = Some(typed(object)),
        Kind::StatefulSet => observed.workload = Some(Workload::StatefulSet(typed(object))),
        Kind::Deployment => observed.workload = Some(Workload::Deployment(typed(object))),
        Kind::Pod => {
            let pod: Arc<k8s_openapi::api::core::v1::Pod> = typed(object);
            observed.pod = Some(pod.clone());
            observed.workload = Some(Workload::Pod(pod));
        }
        other => panic!("a node has no {}", other.name()),
    }
}

fn typed<K: serde::de::DeserializeOwned>(object: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(object).expect("should be an object of this kind"))
}

/// Server-side apply: our fields as wanted, no field of ours that is not wanted any more, what others added stays.
pub(super) fn apply(world: &mut World, wanted: &Wanted) {
    let mut next = wanted.body.clone();
    match live(world, wanted.kind) {
        Some(there) => {
            keep_foreign(&mut next, &there);
            for field in ["uid", "creationTimestamp", "deletionTimestamp"] {
                next["metadata"][field] = there["metadata"][field].clone();
            }
            next["status"] = there["status"].clone();
        }
        None => next["metadata"]["uid"] = json!(format!("uid-of-{}", wanted.kind.name())),
    }
    fill_defaults(wanted.kind, &mut next);
    if wanted.kind == Kind::ConfigMap {
        world.file = world.desired.config.clone();
    }
    store(world, wanted.kind, next);
}

/// Annotations and labels of others, and items of others in lists that are merged.
fn keep_foreign(next: &mut Value, there: &Value) {
    match (next, there) {
        (Value::Object(next), Value::Object(there)) => {
            for (key, value) in there {
                match next.get_mut(key) {
                    Some(ours) if key == "annotations" || key == "labels" => merge_missing(ours, value),
                    Some(ours) => keep_foreign(ours, value),
                    None if ["env", "ports"].contains(&key.as_str()) => {
                        next.insert(key.clone(), value.clone());
                    }
                    None => {}
                }
            }
        }
        (Value::Array(next), Value::Array(there)) => {
            for item in there {
                let id = |value: &Value| {
                    ["name", "mountPath", "containerPort", "port"]
                        .iter()
                        .find_map(|key| value.get(key))
                        .cloned()
                };
                match next.iter_mut().find(|ours| id(ours).is_some() && id(ours) == id(item)) {
                    Some(ours) => keep_foreign(ours, item),
                    None if id(item).is_some() => next.push(item.clone()),
                    None => {}
                }
            }
        }
        _ => {}
    }
}

fn merge_missing(ours: &mut Value, theirs: &Value) {
    if let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) {
        for (key, value) in theirs {
            ours.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// What the API server fills in where nothing is said.
fn fill_defaults(kind: Kind, object: &mut Value) {
    let spec = &mut object["spec"];
    match kind {
        Kind::PersistentVolumeClaim => {
            default(spec, "storageClassName", json!("standard"));
            default(spec, "volumeMode", json!("Filesystem"));
        }
        Kind::Service => {
            default(spec, "type", json!("ClusterIP"));
            default(spec, "clusterIPs", json!(["None"]));
            default(spec, "sessionAffinity", json!("None"));
            default(spec, "ipFamilyPolicy", json!("SingleStack"));
        }
        Kind::ConfigMap => {}
        Kind::StatefulSet => {
            let keep = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
            default(spec, "persistentVolumeClaimRetentionPolicy", keep);
            pod_defaults(&mut spec["template"]["spec"]);
        }
        Kind::Deployment => {
            default(spec, "progressDeadlineSeconds", json!(600));
            pod_defaults(&mut spec["template"]["spec"]);
        }
        Kind::Pod => {
            pod_defaults(spec);
            // Admission adds these to every pod.
            for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
                let added = json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                                   "tolerationSeconds": 300});
                default(spec, "tolerations", json!([]));
                let tolerations = spec["tolerations"].as_array_mut().expect("should be a list");
                if !tolerations.contains(&added) {
                    tolerations.push(added);
                }
            }
            default(spec, "serviceAccountName", json!("default"));
            default(spec, "nodeName", json!("machine-1"));
        }
        other => panic!("a node has no {}", other.name()),
    }
}

fn pod_defaults(spec: &mut Value) {
    default(spec, "restartPolicy", json!("Always"));
    default(spec, "dnsPolicy", json!("ClusterFirst"));
    default(spec, "schedulerName", json!("default-scheduler"));
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        default(container, "terminationMessagePath", json!("/dev/termination-log"));
        default(container, "imagePullPolicy", json!("IfNotPresent"));
        for probe in ["startupProbe", "readinessProbe"] {
            if container.get(probe).is_some() {
                default(&mut container[probe], "timeoutSeconds", json!(1));
                default(&mut container[probe], "successThreshold", json!(1));
            }
        }
    }
    for volume in spec["volumes"].as_array_mut().into_iter().flatten() {
        if volume.get("configMap").is_some() {
            default(&mut volume["configMap"], "defaultMode", json!(420));
        }
    }
}

fn default(object: &mut Value, key: &str, value: Value) {
    if object[key].is_null() {
        object[key] = value;
    }
}

/// What the API server makes of a write.
pub(super) fn perform(world: &mut World, write: &Write) {
    match write {
        Write::Apply { wanted, .. } => apply(world, wanted),
        Write::Merge { kind, body, .. } => {
            let mut object = live(world, *kind).expect("should exist");
            merge(&mut object, body);
            store(world, *kind, object);
        }
        Write::RemoveItems { kind, pointers, .. } => {
            let mut object = live(world, *kind).expect("should exist");
            for pointer in pointers {
                let (list, index) = pointer.rsplit_once('/').expect("should point into a list");
                let items = object.pointer_mut(list).and_then(Value::as_array_mut).expect("should be a list");
                items.remove(index.parse().expect("should be an index"));
            }
            store(world, *kind, object);
        }
        Write::Delete { kind, name, .. } => panic!("a node deletes no {} {name} by a write", kind.name()),
    }
}

fn merge(object: &mut Value, part: &Value) {
    match (object, part) {
        (Value::Object(object), Value::Object(part)) => {
            for (key, value) in part {
                if value.is_null() {
                    object.remove(key);
                } else {
                    merge(object.entry(key.clone()).or_insert(Value::Object(Map::new())), value);
                }
            }
        }
        (object, part) => *object = part.clone(),
    }
}

/// Perform a plan, all of it or only so many of its parts, as if the operator had died in between.
pub(super) fn perform_plan(world: &mut World, plan: &Plan, parts: usize) {
    let mut left = parts;
    let mut next = || {
        let go_on = left > 0;
        left = left.saturating_sub(1);
        go_on
    };
    for write in &plan.writes {
        if !next() {
            return;
        }
        perform(world, write);
    }
    if let LiveConfig::Set(directives, _) = &plan.config.live {
        if !next() {
            return;
        }
        world.change_facts(|facts| facts.config.extend(directives.iter().cloned()));
    }
    for write in &plan.writes_after_config {
        if !next() {
            return;
        }
        perform(world, write);
    }
    if let Some(Step::DeletePod { .. }) = &plan.step
        && next()
    {
        world.observed.workload = None;
        world.observed.pod = None;
        world.observed.server = ServerView::NotAsked;
    }
}

/// Everything that happens by itself: volumes are bound, pods are made, replaced and become ready, servers start.
pub(super) fn act(world: &mut World) {
    bind_claim(world);
    let pod_before = world.observed.pod.as_ref().and_then(|pod| pod.meta().uid.clone());
    run_workload(world);
    let Some(pod) = world.observed.pod.clone() else { return };
    let is_ready = pod.status == pods::with_status(&pod, &pods::ready()).status;
    if !is_ready {
        world.observed.server = ServerView::NotAsked;
        return;
    }
    let is_new = pod_before != pod.meta().uid;
    if is_new || !matches!(world.observed.server, ServerView::Answering(_)) {
        let facts = primary(world.tick(), &world.file);
        world.observed.server = ServerView::Answering(Arc::new(facts));
    }
}

fn bind_claim(world: &mut World) {
    let Some(claim) = &world.observed.claim else { return };
    let mut claim = claim.as_ref().clone();
    let status = claim.status.get_or_insert_default();
    status.phase = Some("Bound".to_owned());
    status.capacity = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
    world.observed.claim = Some(Arc::new(claim));
}

fn run_workload(world: &mut World) {
    let Some(workload) = world.observed.workload.clone() else { return };
    match workload {
        Workload::StatefulSet(set) => {
            let spec = set.spec.clone().expect("should have a spec");
            let on_delete =
                spec.update_strategy.and_then(|strategy| strategy.type_).as_deref() == Some("OnDelete");
            let owner = ("StatefulSet", "valkey-alpha", set.meta().uid.clone().unwrap_or_default());
            run_pod(world, "valkey-alpha-0", &spec.template, &owner, on_delete);
            let mut set = set.as_ref().clone();
            set.status.get_or_insert_default().ready_replicas = Some(1);
            world.observed.workload = Some(Workload::StatefulSet(Arc::new(set)));
        }
        Workload::Deployment(deployment) => {
            let spec = deployment.spec.clone().expect("should have a spec");
            let owner = ("ReplicaSet", "valkey-alpha-5d4f", "uid-of-replica-set".to_owned());
            run_pod(world, "valkey-alpha-5d4f-x7", &spec.template, &owner, false);
        }
        Workload::Pod(pod) if pod.meta().deletion_timestamp.is_some() => {
            world.observed.workload = None;
            world.observed.pod = None;
        }
        Workload::Pod(pod) if pod.status.is_none() => {
            let mut pod = pods::with_status(&pod, &pods::ready());
            pod.metadata.uid = Some(format!("uid-of-pod-{}", world.tick()));
            let pod = Arc::new(pod);
            world.observed.pod = Some(pod.clone());
            world.observed.workload = Some(Workload::Pod(pod));
        }
        Workload::Pod(_) => {}
    }
}

/// A pod that is missing, going, has ended, or was made from another template is made anew.
fn run_pod(
    world: &mut World,
    name: &str,
    template: &PodTemplateSpec,
    owner: &(&str, &str, String),
    on_delete: bool,
) {
    let stays = world.observed.pod.as_deref().is_some_and(|pod| {
        let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed");
        let annotations = template.metadata.as_ref().and_then(|meta| meta.annotations.clone());
        let same = pod.spec == template.spec && pod.meta().annotations == annotations;
        pod.meta().deletion_timestamp.is_none() && !ended && (on_delete || same)
    });
    if !stays {
        let uid = world.tick();
        let owner = (owner.0, owner.1, owner.2.as_str());
        world.observed.pod = Some(Arc::new(pods::of_template(name, uid, template, owner)));
        world.observed.server = ServerView::NotAsked;
    }
}

/// A claim that somebody else made.
pub(super) fn claim_of_somebody(name: &str) -> PersistentVolumeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": "uid-of-their-claim"},
        "spec": {"resources": {"requests": {"storage": "5Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "5Gi"}},
    }))
    .expect("should be a claim")
}
