//! Others change our objects: what is ours is put back, what is theirs is left alone.

use std::time::Duration;

use e2e::objects::uid;
use e2e::{wait, world};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt as _;
use serde_json::json;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn changes_by_others_are_put_back() {
    world::run("drift", async |world| {
        world.ready_node("own", json!({})).await;

        world.patch::<StatefulSet>("valkey-own", json!({"spec": {"replicas": 0}})).await;
        wait::until("replicas are put back", SOON, async || {
            let replicas =
                world.get::<StatefulSet>("valkey-own").await.spec.expect("should have a spec").replicas;
            if replicas == Some(1) { Ok(()) } else { Err(replicas) }
        })
        .await;

        world
            .patch_strategic::<StatefulSet>(
                "valkey-own",
                json!({"spec": {"template": {"spec": {
                    "containers": [
                        {"name": "valkey", "image": "other/image:1", "env": [{"name": "SPY", "value": "1"}]},
                        {"name": "stowaway", "image": "other/image:1"},
                    ],
                    "volumes": [{"name": "extra", "emptyDir": {}}],
                }}}}),
            )
            .await;
        wait::until("the template is put back", SOON, async || {
            let set = world.get::<StatefulSet>("valkey-own").await;
            let pod = set.spec.and_then(|spec| spec.template.spec).expect("should have a pod");
            let containers: Vec<(String, Option<String>, usize)> = pod
                .containers
                .iter()
                .map(|one| (one.name.clone(), one.image.clone(), one.env.as_ref().map_or(0, Vec::len)))
                .collect();
            let clean = containers == [("valkey".to_owned(), Some(e2e::nodes::IMAGE.to_owned()), 0)];
            let volumes = pod.volumes.map_or(0, |volumes| volumes.len());
            if clean && volumes == 3 { Ok(()) } else { Err((containers, volumes)) }
        })
        .await;

        world
            .patch::<Service>(
                "valkey-own",
                json!({"spec": {"selector": {"app.kubernetes.io/instance": "other"}}}),
            )
            .await;
        world.patch::<ConfigMap>("valkey-own", json!({"data": {"valkey.conf": "port 1"}})).await;
        wait::until("Service and ConfigMap are put back", SOON, async || {
            let selector = world
                .get::<Service>("valkey-own")
                .await
                .spec
                .and_then(|spec| spec.selector)
                .unwrap_or_default();
            let file =
                world.get::<ConfigMap>("valkey-own").await.data.unwrap_or_default()["valkey.conf"].clone();
            let same = selector["app.kubernetes.io/instance"] == "own"
                && !file.contains("port 1")
                && file.contains("protected-mode");
            if same { Ok(()) } else { Err((selector, file)) }
        })
        .await;

        world.delete::<Service>("valkey-own").await;
        wait::until("the Service is there again", SOON, async || {
            world.find::<Service>("valkey-own").await.ok_or("missing")
        })
        .await;
        world.wait_ready("own").await;
    })
    .await;
}

/// Without its label an object is in no cache: it must be found, and taken back, all the same.
#[tokio::test]
async fn a_label_that_somebody_changed_is_put_back() {
    world::run("labels", async |world| {
        world.ready_node("tag", json!({})).await;
        let theirs = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}});
        world.patch::<StatefulSet>("valkey-tag", theirs.clone()).await;
        world.patch::<Service>("valkey-tag", theirs.clone()).await;
        world.patch::<ConfigMap>("valkey-tag", theirs).await;
        wait::until("the labels are put back", SOON, async || {
            let set = world.get::<StatefulSet>("valkey-tag").await;
            let service = world.get::<Service>("valkey-tag").await;
            let map = world.get::<ConfigMap>("valkey-tag").await;
            let labels = [set.labels(), service.labels(), map.labels()]
                .map(|labels| labels["app.kubernetes.io/managed-by"].clone());
            if labels.iter().all(|label| label == "valkey-operator") { Ok(()) } else { Err(labels) }
        })
        .await;
        world.wait_ready("tag").await;
    })
    .await;
}

#[tokio::test]
async fn foreign_annotations_and_restarts_are_left_alone() {
    world::run("foreign", async |world| {
        world.ready_node("guest", json!({})).await;
        let before = uid(&world.get::<Pod>("valkey-guest-0").await);
        world
            .patch::<StatefulSet>(
                "valkey-guest",
                json!({"metadata": {"annotations": {"example.com/note": "mine"}}}),
            )
            .await;
        world
            .patch::<Service>("valkey-guest", json!({"metadata": {"labels": {"example.com/team": "a"}}}))
            .await;
        world.kubectl(&["rollout", "restart", "statefulset", "valkey-guest"]).await;
        wait::until("the restart happens", e2e::nodes::PATIENCE, async || {
            match world.find::<Pod>("valkey-guest-0").await {
                Some(pod) if uid(&pod) != before => Ok(()),
                pod => Err(pod.map(|pod| pod.metadata)),
            }
        })
        .await;
        world.wait_ready("guest").await;
        let set = world.get::<StatefulSet>("valkey-guest").await;
        assert_eq!(set.annotations()["example.com/note"], "mine");
        let template = set.spec.expect("should have a spec").template.metadata.expect("should have metadata");
        assert!(template.annotations.unwrap_or_default().contains_key("kubectl.kubernetes.io/restartedAt"));
        assert_eq!(world.get::<Service>("valkey-guest").await.labels()["example.com/team"], "a");
    })
    .await;
}
