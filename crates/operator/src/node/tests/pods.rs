//! Pods in every state that Kubernetes reports, as the kubelet and the scheduler word it.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde_json::{Value, json};

use super::world::{self, IMAGE, NAMESPACE};

/// Where the tests' servers are.
pub(super) const ADDRESS: &str = "10.1.2.3";

/// A ready pod of a template.
pub(super) fn of_template(
    name: &str,
    uid: u32,
    template: &PodTemplateSpec,
    owner: (&str, &str, &str),
) -> Pod {
    let (kind, owner_name, owner_uid) = owner;
    let of_template = template.metadata.clone().unwrap_or_default();
    let pod = Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            uid: Some(format!("uid-of-pod-{uid}")),
            resource_version: Some(uid.to_string()),
            owner_references: Some(vec![OwnerReference {
                api_version: "apps/v1".to_owned(),
                kind: kind.to_owned(),
                name: owner_name.to_owned(),
                uid: owner_uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..of_template
        },
        spec: template.spec.clone(),
        status: None,
    };
    with_status(&pod, &ready())
}

/// The same pod in another state.
pub(super) fn with_status(pod: &Pod, status: &Value) -> Pod {
    let status = serde_json::from_value(status.clone()).expect("should be a pod's status");
    Pod { status: Some(status), ..pod.clone() }
}

/// The pod is being deleted.
pub(super) fn terminating(pod: &mut Pod) {
    pod.metadata.deletion_timestamp = Some(Time(world::at(50)));
}

/// A container in one of the states `waiting`, `running`, `terminated`.
pub(super) fn container(state: &Value, last_state: &Value, restarts: u32) -> Value {
    json!({"name": "valkey", "image": IMAGE, "imageID": "", "ready": false, "started": false,
           "restartCount": restarts, "state": state, "lastState": last_state})
}

fn scheduled() -> Value {
    json!({"type": "PodScheduled", "status": "True"})
}

fn not_ready(containers: &[Value]) -> Value {
    json!({
        "phase": "Pending", "podIP": ADDRESS,
        "conditions": [scheduled(), {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
        "containerStatuses": containers,
    })
}

pub(super) fn ready() -> Value {
    json!({
        "phase": "Running", "podIP": ADDRESS,
        "conditions": [scheduled(), {"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "valkey", "image": IMAGE, "imageID": "", "ready": true, "started": true,
                               "restartCount": 0, "state": {"running": {}}}],
    })
}

pub(super) fn unscheduled() -> Value {
    json!({"phase": "Pending"})
}

pub(super) fn unschedulable(message: &str) -> Value {
    let condition =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    json!({"phase": "Pending", "conditions": [condition]})
}

/// A container that waits for this reason.
pub(super) fn waiting(reason: &str, message: &str) -> Value {
    not_ready(&[container(&json!({"waiting": {"reason": reason, "message": message}}), &json!({}), 0)])
}

/// A server that ends again and again, waiting for its next try.
pub(super) fn crash_looping(restarts: u32, exit_code: i32, reason: &str, last_words: &str) -> Value {
    let pause = format!("back-off {}s restarting failed container=valkey", 10 << restarts.min(5));
    let ended = json!({"terminated": {"exitCode": exit_code, "reason": reason, "message": last_words,
                                      "finishedAt": format!("2026-11-15T20:30:{:02}Z", restarts % 60)}});
    let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": pause}});
    not_ready(&[container(&state, &ended, restarts)])
}

/// A server that has just ended, before its back-off begins.
pub(super) fn ended(exit_code: i32, last_words: &str) -> Value {
    let state = json!({"terminated": {"exitCode": exit_code, "reason": "Error", "message": last_words}});
    not_ready(&[container(&state, &json!({}), 0)])
}

pub(super) fn running_not_ready() -> Value {
    not_ready(&[container(&json!({"running": {}}), &json!({}), 0)])
}

pub(super) fn evicted(message: &str) -> Value {
    json!({"phase": "Failed", "reason": "Evicted", "message": message})
}

pub(super) fn succeeded() -> Value {
    json!({"phase": "Succeeded"})
}
