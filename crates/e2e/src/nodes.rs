//! ValkeyNodes in tests: making them, waiting for them, talking to their servers.

use std::time::Duration;

use api::{ValkeyNode, ValkeyNodeStatus};
use devcluster::Target as ClusterTarget;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use valkey::{Connection, Target};

use crate::{World, wait};

/// The image most tests use.
pub const IMAGE: &str = "valkey/valkey:9.1";
/// An older supported image.
pub const OLD_IMAGE: &str = "valkey/valkey:8.1";
/// How long a node may take to be ready on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(2);

impl World {
    /// Make a node; the image is filled in.
    pub async fn node(&self, name: &str, spec: Value) -> ValkeyNode {
        let mut full = json!({"image": IMAGE});
        for (key, value) in spec.as_object().expect("a spec should be an object") {
            full[key] = value.clone();
        }
        self.create(json!({"apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyNode", "metadata": {"name": name}, "spec": full}))
            .await
    }

    /// Make a node and wait until it is ready.
    pub async fn ready_node(&self, name: &str, spec: Value) -> ValkeyNodeStatus {
        self.node(name, spec).await;
        self.wait_ready(name).await
    }

    /// Change a node's spec.
    pub async fn change(&self, name: &str, spec: Value) {
        self.patch::<ValkeyNode>(name, json!({"spec": spec})).await;
    }

    /// What is known of a node.
    pub async fn status(&self, name: &str) -> ValkeyNodeStatus {
        self.get::<ValkeyNode>(name).await.status.unwrap_or_default()
    }

    /// Wait until the status speaks of the present spec and the node is ready.
    pub async fn wait_ready(&self, name: &str) -> ValkeyNodeStatus {
        wait::until(&format!("{name} is ready"), PATIENCE, async || {
            let node = self.get::<ValkeyNode>(name).await;
            let status = node.status.unwrap_or_default();
            let settled =
                condition(&status, "WorkloadRollPending").is_some_and(|(state, ..)| state == "False");
            if status.ready && settled && status.observed_generation == node.metadata.generation {
                Ok(status)
            } else {
                Err(status.conditions)
            }
        })
        .await
    }

    /// Wait until a condition has a status and a reason; returns its message.
    pub async fn wait_condition(&self, name: &str, type_: &str, state: &str, reason: &str) -> String {
        self.wait_condition_for(name, type_, state, reason, PATIENCE).await
    }

    /// The same with another patience.
    pub async fn wait_condition_for(
        &self,
        name: &str,
        type_: &str,
        state: &str,
        reason: &str,
        patience: Duration,
    ) -> String {
        wait::until(&format!("{name} has {type_}={state}/{reason}"), patience, async || {
            let status = self.status(name).await;
            match condition(&status, type_) {
                Some((is, why, message)) if is == state && why == reason => Ok(message),
                _ => Err(status.conditions),
            }
        })
        .await
    }

    /// The node's pod.
    pub async fn pod_of(&self, name: &str) -> Pod {
        let status = self.status(name).await;
        self.get(status.pod_name.as_deref().expect("should know its pod")).await
    }

    /// A connection to a node's server, without credentials.
    pub async fn connect(&self, name: &str) -> Connection {
        let target = self.server(name).await;
        wait::until(&format!("the server of {name} answers"), Duration::from_secs(20), async || {
            Connection::open(&target).await
        })
        .await
    }

    /// Where a node's server can be reached from the test.
    pub async fn server(&self, name: &str) -> Target {
        let status = self.status(name).await;
        match &self.target {
            ClusterTarget::Local(_) => {
                Target::tcp(status.pod_ip.expect("should have an address"), api::names::SERVER_PORT)
            }
            // The pod network of another cluster is out of reach; its API server is not.
            ClusterTarget::External(_) => {
                let pod = status.pod_name.expect("should know its pod");
                Target::tcp("127.0.0.1", self.forward(&pod, api::names::SERVER_PORT).await)
            }
        }
    }

    /// Events about an object, as `reason: message`.
    pub async fn events_about(&self, name: &str) -> Vec<String> {
        let list =
            self.api::<k8s_openapi::api::core::v1::Event>().list(&kube::api::ListParams::default()).await;
        let events = list.expect("should list events").items;
        events
            .into_iter()
            .filter(|event| event.involved_object.name.as_deref() == Some(name))
            .map(|event| {
                format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect()
    }

    /// Wait until an event about an object begins like this. Events are told after the status is written.
    pub async fn wait_event(&self, name: &str, begins: &str) {
        wait::until(&format!("an event {begins:?} about {name}"), Duration::from_secs(10), async || {
            let events = self.events_about(name).await;
            if events.iter().any(|event| event.starts_with(begins)) { Ok(()) } else { Err(events) }
        })
        .await;
    }
}

/// Status, reason and message of a condition.
pub fn condition(status: &ValkeyNodeStatus, type_: &str) -> Option<(String, String, String)> {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}
