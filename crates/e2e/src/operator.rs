//! The installed operator: who leads, how many run, how it is scaled.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::wait;

/// Where the operator lives.
pub const NAMESPACE: &str = "valkey-operator-system";
/// Name of its Deployment and its Lease.
pub const NAME: &str = "valkey-operator";

/// The pod that holds the Lease, if any.
pub async fn leader(client: &Client) -> Option<String> {
    let api = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    let lease = api.get_opt(NAME).await.expect("should read the Lease")?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

/// Wait until somebody other than `before` leads; returns who.
pub async fn wait_for_other_leader(client: &Client, before: &str, patience: Duration) -> String {
    wait::until("another replica leads", patience, async || match leader(client).await {
        Some(holder) if holder != before => Ok(holder),
        other => Err(other),
    })
    .await
}

/// Everything the leader counts whose name begins like this, by labels.
pub async fn counters(client: &Client, name: &str) -> BTreeMap<String, u64> {
    let leader = leader(client).await.expect("somebody should lead");
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{leader}:8080/proxy/metrics");
    let request = http::Request::get(path).body(Vec::new()).expect("should be a request");
    let text = client.request_text(request).await.expect("the leader should print its metrics");
    text.lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix("_total{")?.split_once("} "))
        .filter_map(|(labels, count)| Some((labels.to_owned(), count.parse().ok()?)))
        .collect()
}

/// What was counted in the meantime.
pub async fn counted(
    client: &Client,
    name: &str,
    meanwhile: impl Future<Output = ()>,
) -> BTreeMap<String, u64> {
    let before = counters(client, name).await;
    meanwhile.await;
    let after = counters(client, name).await.into_iter();
    after
        .map(|(labels, count)| {
            let earlier = before.get(&labels).copied().unwrap_or(0);
            (labels, count - earlier)
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// The operator's pods.
pub async fn pods(client: &Client) -> Vec<Pod> {
    let api = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    api.list(&ListParams::default().labels("app.kubernetes.io/component=operator"))
        .await
        .expect("should list pods")
        .items
}

/// Do something while no operator is installed, and bring it back whatever happens.
pub async fn away<T>(client: &Client, work: impl Future<Output = T>) -> T {
    scale(client, 0).await;
    let result = AssertUnwindSafe(work).catch_unwind().await;
    scale(client, 2).await;
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Do something while the operator has this in its environment, and take it back whatever happens.
pub async fn with_environment<T>(
    client: &Client,
    name: &str,
    value: &str,
    work: impl Future<Output = T>,
) -> T {
    set_environment(client, json!({"name": name, "value": value})).await;
    let result = AssertUnwindSafe(work).catch_unwind().await;
    set_environment(client, json!({"name": name, "$patch": "delete"})).await;
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Change a variable and wait until only replicas run that have it so.
async fn set_environment(client: &Client, variable: Value) {
    scale(client, 0).await;
    let api = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let container = json!({"name": "operator", "env": [variable]});
    let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    api.patch(NAME, &PatchParams::default(), &Patch::Strategic(change)).await.expect("should change");
    scale(client, 2).await;
}

/// Change the number of replicas and wait until it is so.
pub async fn scale(client: &Client, replicas: i32) {
    let api = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let change = json!({"spec": {"replicas": replicas}});
    api.patch(NAME, &PatchParams::default(), &Patch::Merge(change)).await.expect("should scale");
    wait::until(&format!("{replicas} operators run"), Duration::from_secs(90), async || {
        let running = pods(client).await;
        let ready = api
            .get(NAME)
            .await
            .expect("should read")
            .status
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0);
        let wanted = usize::try_from(replicas).expect("should be positive");
        if running.len() == wanted && ready == replicas { Ok(()) } else { Err((running.len(), ready)) }
    })
    .await;
}
