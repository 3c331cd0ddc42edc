//! What to do: desired × observed × what the status remembers → writes in their order and at most one disruptive step.

mod config;
mod roll;

use api::ValkeyNodeStatus;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use super::build::{self, Wanted};
use super::observe::{Observed, Workload};
use super::validate::{Desired, OwnClaim, Storage};
use crate::objects::difference;

pub(super) use crate::objects::Write;
pub(super) use config::{ConfigPlan, LiveConfig, digest as config_digest};
pub(super) use roll::{Roll, workload_revision};

/// The disruptive step of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Delete exactly this pod; the next pass makes a new one.
    DeletePod { name: String, uid: String, resource_version: String, because: &'static str },
}

/// Everything a pass does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Volume first, so that the pod finds it; the file before the pod that reads it; the name before the pod that has it.
    pub(super) writes: Vec<Write>,
    /// Writes that must wait until the running server has accepted the directives: a restart from a file with a
    /// refused directive would end the server for good.
    pub(super) writes_after_config: Vec<Write>,
    pub(super) config: ConfigPlan,
    pub(super) roll: Roll,
    pub(super) step: Option<Step>,
}

impl Plan {
    /// There is nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        let is_settled = matches!(self.config.live, LiveConfig::Settled(_));
        is_settled && self.writes.is_empty() && self.writes_after_config.is_empty() && self.step.is_none()
    }
}

/// Decide.
pub(super) fn plan(desired: &Desired, observed: &Observed, status: &ValkeyNodeStatus) -> Plan {
    let roll = roll::judge(desired, observed);
    let config = config::plan(desired, observed, status);
    let mut plan = Plan { writes: Vec::new(), writes_after_config: Vec::new(), config, roll, step: None };
    if !observed.collisions.is_empty() {
        // Something we need is not ours: half a node would only hide it.
        return plan;
    }
    let identity = &desired.identity;
    if let Storage::Own(own) = &desired.storage {
        plan.writes.extend(claim_write(desired, own, observed.claim.as_deref()));
    }
    plan.writes.extend(difference(build::service(identity), observed.service.as_deref()));
    let file =
        difference(build::config_map(identity, &desired.rendered_config), observed.config_map.as_deref());
    if plan.config.file_may_change(&plan.roll) || observed.config_map.is_none() {
        plan.writes_after_config.extend(file);
    }
    if !matches!(plan.config.live, LiveConfig::Refused(_)) {
        let (writes, step) = workload_changes(desired, observed, &plan.roll);
        plan.writes_after_config.extend(writes);
        plan.step = step;
    }
    plan
}

fn claim_write(desired: &Desired, own: &OwnClaim, claim: Option<&PersistentVolumeClaim>) -> Option<Write> {
    if claim.is_some_and(|claim| claim.meta().deletion_timestamp.is_some()) {
        return None;
    }
    // The hash in the annotation stays that of what was asked for: what is taken over from the claim below is as good.
    let mut wanted = build::claim(&desired.identity, own, &own.size);
    // Somebody may have grown the claim by hand; a claim never shrinks.
    if let Some(there) = claim.and_then(requested_size)
        && kit::quantity::milli(there) > kit::quantity::milli(&own.size)
    {
        wanted.body["spec"]["resources"]["requests"]["storage"] = json!(there);
    }
    // The API server filled in the default class: it cannot be changed, and asking for none must not remove it.
    let class = claim.and_then(|claim| claim.spec.as_ref()?.storage_class_name.as_ref());
    if let (None, Some(class)) = (&own.storage_class_name, class) {
        wanted.body["spec"]["storageClassName"] = json!(class);
    }
    difference(wanted, claim)
}

/// The size a claim asks for.
pub(super) fn requested_size(claim: &PersistentVolumeClaim) -> Option<&str> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage").map(|quantity| quantity.0.as_str())
}

fn workload_changes(desired: &Desired, observed: &Observed, roll: &Roll) -> (Vec<Write>, Option<Step>) {
    let wanted =
        build::workload(&desired.identity, desired.workload_type, desired.update_strategy, &desired.template);
    match &observed.workload {
        Some(Workload::Pod(pod)) => pod_changes(wanted, pod, roll),
        Some(Workload::StatefulSet(set)) => (set_changes(wanted, set.as_ref(), roll), None),
        Some(Workload::Deployment(deployment)) => (set_changes(wanted, deployment.as_ref(), roll), None),
        None => (vec![Write::Apply { wanted, create: true, because: Vec::new() }], None),
    }
}

/// StatefulSet and Deployment: a template that is not allowed yet is not written, everything else is.
fn set_changes<K>(mut wanted: Wanted, live: &K, roll: &Roll) -> Vec<Write>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    if live.meta().deletion_timestamp.is_some() {
        return Vec::new();
    }
    let body = serde_json::to_value(live).unwrap_or_default();
    if roll.waits_for_owner() {
        let mut rest = wanted.body.clone();
        if let Some(spec) = rest["spec"].as_object_mut() {
            spec.remove("template");
        }
        if let Some(annotations) = rest["metadata"]["annotations"].as_object_mut() {
            annotations.remove(api::keys::APPLIED);
        }
        // Merging replaces whole lists, and ours is among the owners: it is how the object was found.
        if let Some(metadata) = rest["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
        }
        if kit::drift::differences(&rest, &body).is_empty() {
            return Vec::new();
        }
        rest["metadata"]["resourceVersion"] = json!(live.meta().resource_version);
        return vec![Write::Merge { kind: wanted.kind, name: wanted.name, body: rest }];
    }
    // The API server repeats the name of an account in a deprecated field that nobody owns, and fills it in from there when
    // it is only left out. The hash in the annotation stays that of what was asked for.
    let account = "/spec/template/spec/serviceAccountName";
    if wanted.body.pointer(account).is_none() && body.pointer(account).is_some() {
        wanted.body["spec"]["template"]["spec"]["serviceAccountName"] = json!("default");
    }
    difference(wanted, Some(live)).into_iter().collect()
}

/// A pod can hardly be changed: another revision means another pod.
fn pod_changes(wanted: Wanted, pod: &Pod, roll: &Roll) -> (Vec<Write>, Option<Step>) {
    if pod.meta().deletion_timestamp.is_some() {
        return (Vec::new(), None);
    }
    let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let because = match (roll, ended) {
        (_, Some("Failed" | "Succeeded")) => Some("the pod has ended"),
        (Roll::Rolling { .. }, _) => Some("the pod template changed"),
        _ => None,
    };
    if let Some(because) = because {
        let step = match (&pod.meta().name, &pod.meta().uid, &pod.meta().resource_version) {
            (Some(name), Some(uid), Some(resource_version)) => Some(Step::DeletePod {
                name: name.clone(),
                uid: uid.clone(),
                resource_version: resource_version.clone(),
                because,
            }),
            _ => None,
        };
        return (Vec::new(), step);
    }
    match roll {
        Roll::UpToDate => (pod_difference(wanted, pod).into_iter().collect(), None),
        _ => (Vec::new(), None),
    }
}

/// Only metadata and images of a pod can be changed. Containers, volumes and tolerations that admission added when it
/// was created belong to it for as long as it lives.
fn pod_difference(mut wanted: Wanted, pod: &Pod) -> Option<Write> {
    let body = serde_json::to_value(pod).unwrap_or_default();
    let images = |pod: &Value| -> Vec<(Value, Value)> {
        let containers = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array());
        let containers = containers.into_iter().flatten().flatten();
        containers.map(|container| (container["name"].clone(), container["image"].clone())).collect()
    };
    let there = images(&body);
    let mut because = kit::drift::differences(&json!({"metadata": wanted.body["metadata"]}), &body);
    because.extend(
        images(&wanted.body)
            .iter()
            .filter(|container| !there.contains(container))
            .map(|(name, _)| format!("image of container {name}")),
    );
    if because.is_empty() {
        return None;
    }
    // Tolerations can only be added to.
    if let Some(tolerations) = body["spec"].get("tolerations") {
        wanted.body["spec"]["tolerations"] = tolerations.clone();
    }
    Some(Write::Apply { wanted, create: false, because })
}
