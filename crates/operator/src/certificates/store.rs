//! Writing a Secret whole, and only over the one that was looked at: a cache may be behind, and what was not seen must not be
//! lost, be it a key or a certificate that somebody uses already.

use api::keys;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde_json::json;

use crate::objects::{Collision, Kind, Wanted, Writer, collision, difference};

/// Why a Secret is not as wanted.
#[derive(Debug)]
pub(super) enum Unstored {
    /// Somebody else has the name.
    Taken(Collision),
    /// It is being deleted, and something holds that up.
    Ending,
    Failed(kit::apply::Error),
}

/// Write a Secret if it is not as wanted. A conflict means that there is another one than was looked at.
pub(super) async fn store(
    client: &Client,
    namespace: &str,
    secret: &Secret,
    live: Option<&Secret>,
    is_ours: impl Fn(&ObjectMeta) -> bool,
) -> Result<(), Unstored> {
    let wanted = Wanted::new(Kind::Secret, secret);
    let writer = Writer { client, namespace, manager: keys::CERTIFICATES_FIELD_MANAGER };
    let objects = writer.objects(Kind::Secret);
    let Some(live) = live else {
        let created = objects.create(&wanted.name, writer.manager, &wanted.body).await;
        let Err(conflict) = created else { return Ok(()) };
        if !conflict.is_conflict() {
            return Err(Unstored::Failed(conflict));
        }
        let Some(holder) = objects.holder(&wanted.name).await.map_err(Unstored::Failed)? else {
            return Err(Unstored::Failed(conflict));
        };
        if !is_ours(&holder) {
            return Err(Unstored::Taken(collision(Kind::Secret, &wanted.name, &holder)));
        }
        // Without our label it is never seen: it is ours, and somebody took the label.
        let label = holder.labels.as_ref().and_then(|labels| labels.get(keys::MANAGED_BY));
        if label.is_none_or(|label| label != keys::MANAGED_BY_VALUE) {
            let labels = json!({"metadata": {"labels": wanted.body["metadata"]["labels"]}});
            objects.merge(&wanted.name, writer.manager, &labels).await.map_err(Unstored::Failed)?;
        }
        return Err(Unstored::Failed(conflict));
    };
    if live.metadata.deletion_timestamp.is_some() {
        return Err(Unstored::Ending);
    }
    if difference(wanted.clone(), Some(live)).is_none() {
        return Ok(());
    }
    let mut body = wanted.body;
    body["metadata"]["resourceVersion"] = json!(live.metadata.resource_version);
    objects.apply(&wanted.name, writer.manager, &body, true).await.map(drop).map_err(Unstored::Failed)
}

#[cfg(test)]
mod tests {
    use kit::testing::{self, Call, Calls, failure, object};
    use pretty_assertions::assert_eq;

    use super::*;

    fn wanted() -> Secret {
        let body = json!({
            "metadata": {"name": "key", "labels": {"app.kubernetes.io/managed-by": "valkey-operator"}},
            "data": {"tls.key": "c2VjcmV0"},
        });
        serde_json::from_value(body).expect("should be one")
    }

    /// An API server that has a Secret of this metadata already.
    fn there(metadata: serde_json::Value) -> (Client, Calls) {
        testing::client(move |call: Call| {
            let metadata = metadata.clone();
            async move {
                match call.method.as_str() {
                    "POST" => failure(409, "AlreadyExists", "it exists"),
                    _ => object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})),
                }
            }
        })
    }

    fn methods(calls: &Calls) -> Vec<String> {
        calls.all().into_iter().map(|call| call.method).collect()
    }

    async fn stored(client: &Client, live: Option<&Secret>) -> Result<(), Unstored> {
        store(client, "team", &wanted(), live, |meta| meta.uid.as_deref() == Some("ours")).await
    }

    #[tokio::test]
    async fn what_was_not_seen_is_never_written_over() {
        let labels = json!({"app.kubernetes.io/managed-by": "valkey-operator"});
        let (client, calls) = there(json!({"name": "key", "uid": "ours", "labels": labels}));
        let stopped = stored(&client, None).await.expect_err("should be a conflict");
        assert!(matches!(stopped, Unstored::Failed(error) if error.is_conflict()));
        assert_eq!(methods(&calls), ["POST", "GET"]);

        let mut ending = wanted();
        ending.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let stopped = stored(&client, Some(&ending)).await.expect_err("should not be called stored");
        assert!(matches!(stopped, Unstored::Ending));

        let (client, _) = there(json!({"name": "key", "uid": "theirs"}));
        let stopped = stored(&client, None).await.expect_err("should be a collision");
        assert!(matches!(stopped, Unstored::Taken(_)));
    }

    /// Otherwise it would be in the way for ever: it is not seen, and it cannot be made.
    #[tokio::test]
    async fn our_own_secret_gets_its_label_back() {
        for labels in [json!(null), json!({"app.kubernetes.io/managed-by": "somebody"})] {
            gets_its_label_back(&labels).await;
        }
    }

    async fn gets_its_label_back(labels: &serde_json::Value) {
        let (client, calls) = there(json!({"name": "key", "uid": "ours", "labels": labels}));
        let stopped = stored(&client, None).await.expect_err("should be a conflict");
        assert!(matches!(stopped, Unstored::Failed(error) if error.is_conflict()));
        assert_eq!(methods(&calls), ["POST", "GET", "PATCH"]);
        let patch = calls.all().pop().expect("should be one").body;
        assert_eq!(
            patch,
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "valkey-operator"}}})
        );
    }

    #[tokio::test]
    async fn an_older_one_is_replaced_only_as_it_was_seen_and_an_equal_one_not_at_all() {
        let mut live = wanted();
        live.metadata.resource_version = Some("7".to_owned());
        let (client, calls) = there(json!({"name": "key"}));
        stored(&client, Some(&live)).await.expect("should be written");
        let call = calls.all().remove(0);
        assert_eq!((call.method.as_str(), &call.body["metadata"]["resourceVersion"]), ("PATCH", &json!("7")));

        let annotation = call.body["metadata"]["annotations"].clone();
        live.metadata.annotations = serde_json::from_value(annotation).expect("should be annotations");
        let (client, calls) = there(json!({"name": "key"}));
        stored(&client, Some(&live)).await.expect("should be fine");
        assert!(calls.all().is_empty());
    }
}
