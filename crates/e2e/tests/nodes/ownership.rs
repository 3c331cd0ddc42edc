//! Names that belong to others.

use e2e::objects::uid;
use e2e::world;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service};
use kube::ResourceExt as _;
use serde_json::json;

#[tokio::test]
async fn objects_of_others_are_never_taken_over() {
    world::run("ownership", async |world| {
        let service = json!({"metadata": {"name": "valkey-a"}, "spec": {"ports": [{"port": 80}], "selector": {"x": "y"}}});
        let taken = world.create::<Service>(service).await;
        world.create::<ConfigMap>(json!({"metadata": {"name": "valkey-b"}, "data": {"theirs": "1"}})).await;
        let claim = json!({"metadata": {"name": "valkey-c-data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}},
        }});
        world.create::<PersistentVolumeClaim>(claim).await;
        // Ours by its labels, but of another owner: a node of the same name that was deleted and made again.
        let labelled = json!({"metadata": {"name": "valkey-d", "labels": {
            "app.kubernetes.io/managed-by": "valkey-operator", "app.kubernetes.io/instance": "d",
        }}, "data": {"theirs": "1"}});
        world.create::<ConfigMap>(labelled).await;

        for (name, spec, object) in [
            ("a", json!({}), "Service valkey-a"),
            ("b", json!({}), "ConfigMap valkey-b"),
            ("c", json!({"persistence": {"size": "64Mi"}}), "PersistentVolumeClaim valkey-c-data"),
            ("d", json!({}), "ConfigMap valkey-d"),
        ] {
            world.node(name, spec).await;
            let message = world.wait_condition(name, "ResourcesReady", "False", "NameCollision").await;
            assert!(message.starts_with(object), "{message}");
            assert!(world.find::<StatefulSet>(&format!("valkey-{name}")).await.is_none(), "no workload for {name}");
        }
        let still = world.get::<Service>("valkey-a").await;
        assert_eq!((uid(&still), still.resource_version()), (uid(&taken), taken.resource_version()));
        for name in ["valkey-b", "valkey-d"] {
            let map = world.get::<ConfigMap>(name).await;
            assert_eq!(map.data.unwrap_or_default().len(), 1);
        }
        assert!(world.get::<PersistentVolumeClaim>("valkey-c-data").await.labels().is_empty());

        // When the other object goes, the node comes.
        world.delete::<Service>("valkey-a").await;
        world.wait_ready("a").await;
    })
    .await;
}
