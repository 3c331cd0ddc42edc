//! Which replica leads, as a label of its pod. The Service for agents selects by it, so that they reach whoever acts on what they say.

use std::time::Duration;

use api::keys;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kit::apply::Objects;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use snafu::{ResultExt as _, Snafu};

/// The operator's own pods.
const OPERATORS: &str = "app.kubernetes.io/name=valkey-operator";
/// What the label says.
const YES: &str = "true";
/// After a failure.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Debug, Snafu)]
enum Error {
    #[snafu(display("failed to watch the operator's pods"))]
    Watch { source: watcher::Error },
    #[snafu(display("failed to label the operator's pod {pod}"))]
    Label { pod: String, source: kit::apply::Error },
}

/// See to it that the pod of this name has the label, and none of the others, for as long as this replica leads. A leader that is
/// gone cannot take its label off.
pub(crate) async fn keep(client: Client, namespace: String, me: String) {
    loop {
        match watch(&client, &namespace, &me).await {
            Ok(()) => {}
            Err(error) => {
                let error = kit::telemetry::chain(&error);
                tracing::warn!(%error, "agents may not find the replica that leads");
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn watch(client: &Client, namespace: &str, me: &str) -> Result<(), Error> {
    let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), namespace);
    let objects = Objects::of::<Pod>(client, namespace);
    let changes = watcher(pods, watcher::Config::default().labels(OPERATORS)).default_backoff();
    let mut changes = Box::pin(changes.applied_objects());
    while let Some(pod) = changes.try_next().await.context(WatchSnafu)? {
        let Some(body) = correction(&pod, me) else { continue };
        let name = pod.name_any();
        match objects.merge(&name, keys::MANAGED_BY_VALUE, &body).await {
            Err(error) if !error.is_not_found() => return Err(error).context(LabelSnafu { pod: name }),
            _ => tracing::info!(pod = %name, leads = (name == me), "labelled"),
        }
    }
    Ok(())
}

/// What is to be changed of a pod.
fn correction(pod: &PartialObjectMeta<Pod>, me: &str) -> Option<Value> {
    let leads = pod.metadata.name.as_deref() == Some(me);
    let label = pod.labels().get(keys::LEADER).map(String::as_str);
    let wanted = leads.then_some(YES);
    (label != wanted).then(|| json!({"metadata": {"labels": {keys::LEADER: wanted}}}))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn pod(name: &str, label: Option<&str>) -> PartialObjectMeta<Pod> {
        let labels = label.map_or(json!({}), |label| json!({keys::LEADER: label}));
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    #[test]
    fn the_leader_has_the_label_and_nobody_else() {
        let label = |value: Value| Some(json!({"metadata": {"labels": {"valkey.io/leader": value}}}));
        assert_eq!(correction(&pod("me", None), "me"), label(json!("true")));
        assert_eq!(correction(&pod("me", Some("false")), "me"), label(json!("true")));
        assert_eq!(correction(&pod("me", Some("true")), "me"), None);
        assert_eq!(correction(&pod("other", Some("true")), "me"), label(json!(null)));
        assert_eq!(correction(&pod("other", None), "me"), None);
    }
}
