//! Writing a Secret whole, and only over the one that was looked at: a cache may be behind, and what was not seen must not be
//! lost, be it a key or a certificate that somebody uses already.

use api::keys;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde_json::json;

use crate::objects::{Kind, Stopped, Wanted, Writer, collision, difference};

/// Write a Secret if it is not as wanted. A conflict means that there is another one than was looked at.
pub(super) async fn store(
    client: &Client,
    namespace: &str,
    secret: &Secret,
    live: Option<&Secret>,
    is_ours: impl Fn(&ObjectMeta) -> bool,
) -> Result<(), Stopped> {
    let wanted = Wanted::new(Kind::Secret, secret);
    let writer = Writer { client, namespace, manager: keys::CERTIFICATES_FIELD_MANAGER };
    let objects = writer.objects(Kind::Secret);
    let Some(live) = live else {
        let created = objects.create(&wanted.name, writer.manager, &wanted.body).await;
        let Err(conflict) = created else { return Ok(()) };
        if !conflict.is_conflict() {
            return Err(Stopped::Failed(conflict));
        }
        let Some(holder) = objects.holder(&wanted.name).await.map_err(Stopped::Failed)? else {
            return Err(Stopped::Failed(conflict));
        };
        if !is_ours(&holder) {
            return Err(Stopped::Taken(collision(Kind::Secret, &wanted.name, &holder)));
        }
        // Without our label it is never seen: it is ours, and somebody took the label.
        if holder.labels.as_ref().and_then(|labels| labels.get(keys::MANAGED_BY)).is_none() {
            let labels = json!({"metadata": {"labels": wanted.body["metadata"]["labels"]}});
            objects.merge(&wanted.name, writer.manager, &labels).await.map_err(Stopped::Failed)?;
        }
        return Err(Stopped::Failed(conflict));
    };
    if difference(wanted.clone(), Some(live)).is_none() {
        return Ok(());
    }
    let mut body = wanted.body;
    body["metadata"]["resourceVersion"] = json!(live.metadata.resource_version);
    objects.apply(&wanted.name, writer.manager, &body, true).await.map(drop).map_err(Stopped::Failed)
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

    async fn stored(client: &Client, live: Option<&Secret>) -> Result<(), Stopped> {
        store(client, "team", &wanted(), live, |meta| meta.uid.as_deref() == Some("ours")).await
    }

    #[tokio::test]
    async fn what_was_not_seen_is_never_written_over() {
        let labels = json!({"app.kubernetes.io/managed-by": "valkey-operator"});
        let (client, calls) = there(json!({"name": "key", "uid": "ours", "labels": labels}));
        let stopped = stored(&client, None).await.expect_err("should be a conflict");
        assert!(matches!(stopped, Stopped::Failed(error) if error.is_conflict()));
        assert_eq!(methods(&calls), ["POST", "GET"]);

        let (client, _) = there(json!({"name": "key", "uid": "theirs"}));
        let stopped = stored(&client, None).await.expect_err("should be a collision");
        assert!(matches!(stopped, Stopped::Taken(_)));
    }

    /// Otherwise it would be in the way for ever: it is not seen, and it cannot be made.
    #[tokio::test]
    async fn our_own_secret_gets_its_label_back() {
        let (client, calls) = there(json!({"name": "key", "uid": "ours"}));
        let stopped = stored(&client, None).await.expect_err("should be a conflict");
        assert!(matches!(stopped, Stopped::Failed(error) if error.is_conflict()));
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
