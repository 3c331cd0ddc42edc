//! Names that a cluster needs and that belong to others.

use api::cluster::ClusterPhase;
use api::{ValkeyCluster, ValkeyNode};
use e2e::objects::{Kind, uid};
use e2e::{World, world};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};

/// Make an object that is in the way, then a cluster that needs its name; nothing of the object may change.
async fn collides<K: Kind>(world: &World, cluster: &str, object: Value) {
    let taken = world.create::<K>(object).await;
    let (kind, name) = (K::kind(&()), taken.name_any());
    world.cluster(cluster, json!({"shards": 1, "replicas": 0})).await;
    let message = world.wait_cluster_condition(cluster, "Ready", "False", "NameCollision").await;
    assert!(message.starts_with(&format!("{kind} {name}")), "{message}");
    let status = world.cluster_status(cluster).await;
    assert_eq!(status.phase, Some(ClusterPhase::Error));
    assert_eq!(status.message.as_deref(), Some(message.as_str()), "the wide column shows it");
    world.wait_event(cluster, &format!("NameCollision: {kind} {name}")).await;
    let still = world.get::<K>(&name).await;
    // The status of a ValkeyNode is written whoever made it.
    assert_eq!(uid(&still), uid(&taken));
    assert_eq!((still.labels(), still.annotations()), (taken.labels(), taken.annotations()));
    assert!(still.owner_references().is_empty(), "{kind} {name} was taken");
    let selector = ListParams::default().labels(&format!("valkey.io/cluster={cluster}"));
    let pods = world.api::<Pod>().list(&selector).await.expect("should list").items;
    assert!(pods.is_empty(), "half a cluster would only hide the collision");
}

#[tokio::test]
async fn what_belongs_to_others_is_never_taken_and_its_removal_heals() {
    world::run("cluster-ownership", async |world| {
        let port = json!({"ports": [{"port": 80}], "selector": {"x": "y"}});
        let client = json!({"metadata": {"name": "valkey-a-client"}, "spec": port});
        collides::<Service>(world, "a", client).await;
        collides::<Service>(world, "b", json!({"metadata": {"name": "valkey-b"}, "spec": port})).await;
        let secret = json!({"metadata": {"name": "internal-c-acl"}, "stringData": {"theirs": "1"}});
        collides::<Secret>(world, "c", secret).await;
        let budget = json!({"metadata": {"name": "valkey-d"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}}});
        collides::<PodDisruptionBudget>(world, "d", budget).await;
        // Ours by its labels, but of nobody.
        let labels = json!({"app.kubernetes.io/managed-by": "valkey-operator", "app.kubernetes.io/instance": "e"});
        let passwords = json!({"metadata": {"name": "internal-e-system-passwords", "labels": labels}, "stringData": {"_operator": "x"}});
        collides::<Secret>(world, "e", passwords).await;
        let nowhere = json!({"image": e2e::nodes::IMAGE, "nodeSelector": {"example.com/no-such": "machine"}});
        collides::<ValkeyNode>(world, "f", json!({"metadata": {"name": "f-0-0"}, "spec": nowhere})).await;

        world.delete::<Service>("valkey-a-client").await;
        world.delete::<Secret>("internal-e-system-passwords").await;
        world.delete::<ValkeyNode>("f-0-0").await;
        for healed in ["a", "e", "f"] {
            world.wait_cluster_ready(healed).await;
        }
        for stuck in ["b", "c", "d"] {
            world.delete::<ValkeyCluster>(stuck).await;
        }
    })
    .await;
}
