//! The objects of a cluster: what is made, what it is called, and to whom it belongs.

use std::collections::{BTreeMap, BTreeSet};

use api::{ValkeyCertificateBinding, ValkeyCertificateBundle, ValkeyCluster, ValkeyNode, keys};
use e2e::objects::{Kind, uid};
use e2e::{World, world};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

/// Everything that is there, by kind and name: labels, annotations, owner.
struct Inventory<'a> {
    world: &'a World,
    cluster: &'a str,
    /// Uids of those that may own something.
    owners: BTreeSet<String>,
    names: BTreeMap<String, BTreeSet<String>>,
}

impl Inventory<'_> {
    /// Note the objects of a kind; each must be marked as the cluster's and belong to one of the owners, if it has any.
    async fn note<K: Kind>(&mut self, owned: bool) {
        let kind = K::kind(&()).into_owned();
        let list = self.world.api::<K>().list(&ListParams::default()).await.expect("should list").items;
        for object in list {
            let name = object.name_any();
            // Kubernetes itself puts this into every namespace.
            if name == "kube-root-ca.crt" {
                continue;
            }
            let labels = object.labels();
            let label = |key: &str| labels.get(key).map(String::as_str);
            assert_eq!(label(keys::NAME), Some("valkey"), "{kind} {name}");
            assert_eq!(label(keys::MANAGED_BY), Some("valkey-operator"), "{kind} {name}");
            assert_eq!(label(keys::CLUSTER), Some(self.cluster), "{kind} {name}");
            let cr = object.annotations().get(keys::CR).map(String::as_str);
            assert_eq!(cr, Some(self.cluster), "{kind} {name} should name the object a user asked for");
            let controllers: Vec<&str> = object
                .owner_references()
                .iter()
                .filter(|owner| owner.controller == Some(true))
                .map(|owner| owner.uid.as_str())
                .collect();
            match controllers.as_slice() {
                [controller] if owned => assert!(self.owners.contains(*controller), "{kind} {name}"),
                [] if !owned => {}
                other => panic!("{kind} {name} has the owners {other:?}"),
            }
            self.owners.insert(uid(&object));
            self.names.entry(kind.clone()).or_default().insert(name);
        }
    }
}

/// Beside those with the certificates of nodes.
const SECRETS: &[&str] = &[
    "internal-own-acl",
    "internal-own-mtls-ca",
    "internal-own-mtls-ca-key",
    "internal-own-operator-mtls",
    "internal-own-system-passwords",
];

#[tokio::test]
async fn every_object_is_named_marked_and_owned_as_documented() {
    world::run("cluster-objects", async |world| {
        let spec = json!({"shards": 2, "replicas": 1, "persistence": {"size": "32Mi"}});
        world.ready_cluster("own", spec).await;
        let cluster = uid(&world.get::<ValkeyCluster>("own").await);
        let owners = BTreeSet::from([cluster]);
        let mut inventory = Inventory { world, cluster: "own", owners, names: BTreeMap::new() };
        inventory.note::<ValkeyNode>(true).await;
        inventory.note::<ValkeyCertificateBundle>(true).await;
        inventory.note::<ValkeyCertificateBinding>(true).await;
        inventory.note::<StatefulSet>(true).await;
        inventory.note::<Pod>(true).await;
        inventory.note::<Service>(true).await;
        inventory.note::<ConfigMap>(true).await;
        inventory.note::<Secret>(true).await;
        inventory.note::<PodDisruptionBudget>(true).await;
        // Data outlives the cluster.
        inventory.note::<PersistentVolumeClaim>(false).await;

        let nodes = ["0-0", "0-1", "1-0", "1-1"];
        let named =
            |pattern: &str| nodes.iter().map(|node| pattern.replace('*', node)).collect::<BTreeSet<_>>();
        let with = |mut names: BTreeSet<String>, more: &[&str]| {
            names.extend(more.iter().map(ToString::to_string));
            names
        };
        let expected = BTreeMap::from([
            ("ValkeyNode".to_owned(), named("own-*")),
            ("StatefulSet".to_owned(), named("valkey-own-*")),
            ("Pod".to_owned(), named("valkey-own-*-0")),
            ("Service".to_owned(), with(named("valkey-own-*"), &["valkey-own", "valkey-own-client"])),
            ("ConfigMap".to_owned(), named("valkey-own-*")),
            ("ValkeyCertificateBundle".to_owned(), with(BTreeSet::new(), &["own-mtls"])),
            ("ValkeyCertificateBinding".to_owned(), with(named("own-*"), &["own-operator"])),
            ("Secret".to_owned(), with(named("internal-own-*-mtls"), SECRETS)),
            ("PodDisruptionBudget".to_owned(), with(BTreeSet::new(), &["valkey-own"])),
            ("PersistentVolumeClaim".to_owned(), named("valkey-own-*-data")),
        ]);
        assert_eq!(inventory.names, expected);
        check_pods(world).await;
        check_services(world).await;
        check_budget(world).await;
    })
    .await;
}

async fn check_pods(world: &World) {
    let pods: Vec<Pod> = world.cluster_pods("own").await.into_iter().flatten().collect();
    let label = |pod: &Pod, key: &str| pod.labels().get(key).cloned().unwrap_or_default();
    let extra: BTreeSet<String> = pods.iter().map(|pod| label(pod, keys::POD_EXTRA_SELECTOR)).collect();
    let expected = ["0-0", "0-1", "1-0", "1-1"].map(|place| format!("own-cluster-pod-{place}"));
    assert_eq!(extra.into_iter().collect::<Vec<_>>(), expected);
    for pod in &pods {
        let place = format!("own-{}-{}", label(pod, keys::SHARD_INDEX), label(pod, keys::NODE_INDEX));
        assert_eq!(place, label(pod, keys::INSTANCE));
    }
}

async fn check_services(world: &World) {
    let selector = BTreeMap::from([
        (keys::NAME.to_owned(), keys::NAME_VALUE.to_owned()),
        (keys::CLUSTER.to_owned(), "own".to_owned()),
    ]);
    let all = world.get::<Service>("valkey-own").await.spec.expect("should have a spec");
    assert_eq!(all.cluster_ip.as_deref(), Some("None"));
    assert_eq!(all.publish_not_ready_addresses, Some(true));
    let client = world.get::<Service>("valkey-own-client").await.spec.expect("should have a spec");
    assert_eq!(client.type_.as_deref(), Some("ClusterIP"));
    assert_ne!(client.cluster_ip.as_deref(), Some("None"), "one address to start from");
    assert_ne!(client.publish_not_ready_addresses, Some(true), "only those that know every slot");
    for spec in [all, client] {
        assert_eq!(spec.selector.as_ref(), Some(&selector));
        let ports = spec.ports.unwrap_or_default();
        let ports: Vec<_> = ports.iter().map(|port| (port.name.as_deref(), port.port)).collect();
        assert_eq!(ports, [(Some("valkey"), 6379)]);
    }
}

async fn check_budget(world: &World) {
    let budget = world.get::<PodDisruptionBudget>("valkey-own").await.spec.expect("should have a spec");
    assert_eq!(budget.min_available, Some(IntOrString::Int(3)), "one of four pods may go");
    assert_eq!(budget.max_unavailable, None);
    let labels = budget.selector.and_then(|selector| selector.match_labels).unwrap_or_default();
    assert_eq!(labels.get(keys::CLUSTER).map(String::as_str), Some("own"));
}

#[tokio::test]
async fn deleting_a_cluster_removes_its_objects_and_keeps_its_volumes() {
    world::run("cluster-deletion", async |world| {
        let spec = json!({"shards": 1, "replicas": 1, "persistence": {"size": "32Mi"}});
        world.ready_cluster("gone", spec).await;
        let claims = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await;
        let before: Vec<String> = claims.expect("should list").iter().map(uid).collect();
        assert_eq!(before.len(), 2);
        world.delete::<ValkeyCluster>("gone").await;
        e2e::wait::until("everything but the volumes is gone", e2e::nodes::PATIENCE, async || {
            let left =
                world.kubectl(&["get", "vkc,vkn,statefulset,pod,service,secret,pdb", "-o", "name"]).await;
            if left.trim().is_empty() || left.contains("No resources found") { Ok(()) } else { Err(left) }
        })
        .await;
        let claims = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await;
        assert_eq!(claims.expect("should list").iter().map(uid).collect::<Vec<_>>(), before);
    })
    .await;
}
