//! When a changed template reaches the pod: only when the owner allows it, or only when the pod is deleted.

use std::time::Duration;

use api::ValkeyNode;
use e2e::objects::uid;
use e2e::{wait, world};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

async fn make_owned(world: &e2e::World, name: &str, workload_type: &str) {
    let owner = world.create::<ConfigMap>(json!({"metadata": {"name": format!("owner-of-{name}")}})).await;
    world
        .create::<ValkeyNode>(json!({
            "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyNode",
            "metadata": {"name": name, "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": format!("owner-of-{name}"), "uid": uid(&owner), "controller": true,
            }]},
            "spec": {"image": e2e::nodes::IMAGE, "workloadType": workload_type},
        }))
        .await;
}

#[tokio::test]
async fn an_owned_node_rolls_only_when_allowed() {
    world::run("authorised", async |world| {
        for (name, workload_type) in [("set", "StatefulSet"), ("dep", "Deployment"), ("bare", "Pod")] {
            make_owned(world, name, workload_type).await;
        }
        for name in ["set", "dep", "bare"] {
            let status = world.wait_ready(name).await;
            let pod = uid(&world.pod_of(name).await);
            world.change(name, json!({"terminationGracePeriodSeconds": 5})).await;
            world.wait_condition(name, "WorkloadRollPending", "True", "WaitingForAuthorisation").await;
            wait::always("the pod stays", Duration::from_secs(5), async || {
                let now = uid(&world.pod_of(name).await);
                if now == pod { Ok(()) } else { Err(now) }
            })
            .await;
            if name == "set" {
                // Drift outside of the template is put back all the same.
                world.patch::<StatefulSet>("valkey-set", json!({"spec": {"replicas": 0}})).await;
                wait::until("replicas are put back", Duration::from_secs(20), async || {
                    let replicas =
                        world.get::<StatefulSet>("valkey-set").await.spec.and_then(|spec| spec.replicas);
                    if replicas == Some(1) { Ok(()) } else { Err(replicas) }
                })
                .await;
                wait::until("it is ready again", e2e::nodes::PATIENCE, async || {
                    let status = world.status(name).await;
                    if status.ready { Ok(()) } else { Err(status.conditions) }
                })
                .await;
            }
            let pending =
                world.status(name).await.pending_workload_revision.expect("should name the revision");
            assert_ne!(Some(&pending), status.workload_revision.as_ref());
            world.change(name, json!({"workloadRevision": pending})).await;
            let after = world.wait_ready(name).await;
            assert_eq!(after.workload_revision, Some(pending));
            assert_eq!(grace(&world.pod_of(name).await), 5);
        }
    })
    .await;
}

fn grace(pod: &Pod) -> i64 {
    pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or_default()
}

#[tokio::test]
async fn on_delete_waits_for_the_pod_to_be_deleted() {
    world::run("on-delete", async |world| {
        for (name, workload_type) in [("set", "StatefulSet"), ("bare", "Pod")] {
            let spec: Value = json!({"workloadType": workload_type, "updateStrategy": "OnDelete"});
            world.ready_node(name, spec).await;
            let pod = world.pod_of(name).await;
            world.change(name, json!({"terminationGracePeriodSeconds": 5})).await;
            world.wait_condition(name, "WorkloadRollPending", "True", "WaitingForPodDeletion").await;
            wait::always("the pod stays", Duration::from_secs(5), async || {
                let now = uid(&world.pod_of(name).await);
                if now == uid(&pod) { Ok(()) } else { Err(now) }
            })
            .await;
            world.delete::<Pod>(&api::names::pod(name)).await;
            wait::until("the new template runs", e2e::nodes::PATIENCE, async || {
                match world.find::<Pod>(&api::names::pod(name)).await {
                    Some(now) if grace(&now) == 5 => Ok(()),
                    other => Err(other.map(|pod| pod.metadata)),
                }
            })
            .await;
            world.wait_ready(name).await;
        }
    })
    .await;
}
