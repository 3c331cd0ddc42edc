//! How long a node takes from `apply` to Ready, beside a bare StatefulSet with the same image, file and probes.

use std::time::{Duration, Instant};

use api::ValkeyNode;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::{World, wait};

/// Times of one kind of start, sorted.
#[derive(Debug)]
pub struct Times(Vec<Duration>);

impl Times {
    /// The middle one.
    pub fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }
}

const LOOK: Duration = Duration::from_millis(50);

/// Take turns, so that both see the same machine. Returns (ValkeyNode, StatefulSet).
pub async fn compare(world: &World, rounds: usize) -> (Times, Times) {
    world.ready_node("template", json!({})).await;
    let template = world.get::<StatefulSet>("valkey-template").await;
    let file = world.get::<ConfigMap>("valkey-template").await.data.unwrap_or_default();
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        ours.push(node(world, &format!("ours{round}")).await);
        bare.push(stateful_set(world, &format!("bare{round}"), &template, &file).await);
    }
    world.delete::<ValkeyNode>("template").await;
    ours.sort();
    bare.sort();
    (Times(ours), Times(bare))
}

async fn node(world: &World, name: &str) -> Duration {
    let begun = Instant::now();
    world.node(name, json!({})).await;
    loop {
        if world.status(name).await.ready {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let took = begun.elapsed();
    world.delete::<ValkeyNode>(name).await;
    gone(world, &api::names::pod(name)).await;
    took
}

async fn stateful_set(
    world: &World,
    name: &str,
    like: &StatefulSet,
    file: &std::collections::BTreeMap<String, String>,
) -> Duration {
    let mut template: Value = serde_json::to_value(&like.spec.as_ref().expect("should have a spec").template)
        .expect("should be JSON");
    let labels = json!({"app": name});
    template["metadata"] = json!({"labels": labels});
    template["spec"]["volumes"][0]["configMap"]["name"] = json!(name);
    let begun = Instant::now();
    world.create::<ConfigMap>(json!({"metadata": {"name": name}, "data": file})).await;
    world
        .create::<StatefulSet>(json!({"metadata": {"name": name}, "spec": {
            "replicas": 1, "serviceName": name, "selector": {"matchLabels": labels}, "template": template,
        }}))
        .await;
    loop {
        let set = world.get::<StatefulSet>(name).await;
        if set.status.and_then(|status| status.ready_replicas) == Some(1) {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let took = begun.elapsed();
    world.delete::<StatefulSet>(name).await;
    gone(world, &format!("{name}-0")).await;
    took
}

/// The next round starts on a quiet machine.
async fn gone(world: &World, pod: &str) {
    wait::until("the pod is gone", Duration::from_mins(1), async || {
        world.find::<Pod>(pod).await.map_or(Ok(()), |pod| Err(pod.name_any()))
    })
    .await;
}
