//! Works on the cluster that `devcluster up` started on this machine: needs root.

mod faults;
mod routes;
mod volumes;

use std::future::Future;
use std::time::Duration;

use devcluster::Cluster;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);

/// The cluster, and a namespace of its own for one test.
struct Place {
    cluster: Cluster,
    client: Client,
    namespace: String,
}

impl Place {
    async fn new(purpose: &str) -> Self {
        let cluster = Cluster::find().expect("the record can be read").expect("a cluster is up");
        let client = cluster.client().await.expect("a client");
        let namespace = object(json!({ "metadata": { "generateName": format!("{purpose}-test-") } }));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        let namespace = made.expect("the namespace is made").name_any();
        Self { cluster, client, namespace }
    }

    async fn remove(self) {
        let namespaces: Api<Namespace> = Api::all(self.client);
        namespaces.delete(&self.namespace, &DeleteParams::default()).await.expect("the namespace goes");
    }
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("a valid object")
}

/// Asks again and again until there is an answer.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let waiting = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.map_err(|_| what).expect("it happens in time")
}
