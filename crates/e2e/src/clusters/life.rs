//! Making ValkeyClusters, changing them, and waiting for what becomes of them.

use std::time::Duration;

use api::cluster::ClusterPhase;
use api::{ValkeyCluster, ValkeyClusterStatus};
use serde_json::{Value, json};

use super::everywhere;
use crate::invariants::{self, Observation, View};
use crate::nodes::PATIENCE;
use crate::{World, wait};

impl World {
    /// Make a cluster.
    pub async fn cluster(&self, name: &str, spec: Value) -> ValkeyCluster {
        let body = json!({
            "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "metadata": {"name": name}, "spec": spec,
        });
        self.create(body).await
    }

    /// Make a cluster and wait until it is ready.
    pub async fn ready_cluster(&self, name: &str, spec: Value) -> ValkeyClusterStatus {
        self.cluster(name, spec).await;
        self.wait_cluster_ready(name).await
    }

    /// Change a cluster's spec.
    pub async fn change_cluster(&self, name: &str, spec: Value) {
        self.patch::<ValkeyCluster>(name, json!({"spec": spec})).await;
    }

    /// What is known of a cluster.
    pub async fn cluster_status(&self, name: &str) -> ValkeyClusterStatus {
        self.get::<ValkeyCluster>(name).await.status.unwrap_or_default()
    }

    /// Wait until the status speaks of the present spec, the cluster is ready, and nothing is left to do.
    pub async fn wait_cluster_ready(&self, name: &str) -> ValkeyClusterStatus {
        wait::until(&format!("{name} is ready"), PATIENCE, async || {
            let cluster = self.get::<ValkeyCluster>(name).await;
            let status = cluster.status.unwrap_or_default();
            let settled = condition(&status, "Progressing").is_some_and(|(state, ..)| state == "False");
            let current = status.observed_generation == cluster.metadata.generation;
            if status.phase == Some(ClusterPhase::Ready) && settled && current {
                Ok(status)
            } else {
                Err((status.phase, status.message, status.summary, status.shard_details))
            }
        })
        .await
    }

    /// Wait until every primary leads at the word of others, and all of them know.
    pub async fn wait_led(&self, name: &str) {
        wait::until(&format!("{name} is led"), PATIENCE, async || {
            for primary in self.primaries(name).await {
                let pod = primary.pod.metadata.name.unwrap_or_default();
                let path = format!("/api/v1/namespaces/{}/pods/{pod}:18369/proxy/metrics", self.namespace);
                let request = http::Request::get(path).body(Vec::new()).expect("should be a request");
                let metrics = self.client.request_text(request).await.map_err(|error| error.to_string())?;
                if !metrics.lines().any(|line| line == "valkey_agent_leads 1") {
                    return Err(format!("{pod} does not lead at the word of others"));
                }
            }
            Ok(())
        })
        .await;
        // Whoever was asked last.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// Wait until a condition has a status and a reason; returns its message.
    pub async fn wait_cluster_condition(&self, name: &str, type_: &str, state: &str, reason: &str) -> String {
        wait::until(&format!("{name} has {type_}={state}/{reason}"), PATIENCE, async || {
            let status = self.cluster_status(name).await;
            match condition(&status, type_) {
                Some((is, why, message)) if is == state && why == reason => Ok(message),
                _ => Err(status.conditions),
            }
        })
        .await
    }

    /// What the servers of a cluster say, whether or not their addresses can be reached from here.
    pub async fn observe(&self, cluster: &str) -> Observation {
        let asked = self.cluster_servers(cluster).await.into_iter().map(|server| async move {
            let view = async { View::of(&server.open().await?).await }.await;
            (server.address.clone(), view.map_err(|error: valkey::Error| error.to_string()))
        });
        Observation { views: futures::future::join_all(asked).await }
    }

    /// Wait until every invariant holds; returns how long that took.
    pub async fn wait_whole(&self, cluster: &str, patience: Duration) -> Duration {
        invariants::eventually(&format!("{cluster} is whole"), patience, async || {
            let wanted = self.wanted(cluster).await;
            invariants::all(&self.observe(cluster).await, &wanted)
        })
        .await
    }

    /// A directive as each server has it, once all have the same.
    pub async fn wait_directive(
        &self,
        cluster: &str,
        name: &str,
        value: &str,
        patience: Duration,
    ) -> Duration {
        let servers = self.cluster_servers(cluster).await;
        everywhere(&format!("{name} is {value}"), &servers, patience, async |server| {
            let values = server.open().await?.config_get(&[name]).await?;
            let is = values.get(name).cloned().unwrap_or_default();
            Ok(if is == value { Ok(()) } else { Err(is) })
        })
        .await
    }
}

/// Status, reason and message of a condition.
pub fn condition(status: &ValkeyClusterStatus, type_: &str) -> Option<(String, String, String)> {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}
