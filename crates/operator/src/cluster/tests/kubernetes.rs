//! Kubernetes as far as a cluster sees it: what the API server makes of a write, and pods that come, start and become
//! ready.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{ValkeyCertificateBinding, ValkeyNode, keys, names};
use kube::ResourceExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use valkey::acl::{Listed, SystemUser};

use super::super::observe::{PodFacts, PodStage};
use super::super::topology::Place;
use super::servers::Server;
use super::world::{CLUSTER, World};
use crate::objects::{Kind, Wanted, Write};

/// Objects by kind and name, and the pods of the nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kubernetes {
    objects: BTreeMap<(&'static str, String), Value>,
    pub(super) pods: BTreeMap<Place, Pod>,
    /// Nodes whose certificates were signed and stored.
    pub(super) signed: BTreeSet<Place>,
    /// Certificates of somebody else's that are called like ours.
    pub(super) untouchable: BTreeSet<String>,
}

/// A pod with what its kubelet keeps in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) facts: PodFacts,
    /// The Secrets, as they were mounted last.
    pub(super) mounted: Option<Mounted>,
}

/// What a server reads when it starts, and its agent whenever it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    users_file: String,
    pub(super) replication: String,
    pub(super) agent: String,
}

impl Mounted {
    pub(super) fn users(&self) -> Listed {
        Listed::parse(&self.users_file.lines().map(str::to_owned).collect::<Vec<_>>())
    }
}

impl Kubernetes {
    pub(super) fn object(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.name(), name.to_owned()))
    }

    pub(super) fn names_of(&self, kind: Kind) -> Vec<&str> {
        self.objects.keys().filter(|(of, _)| *of == kind.name()).map(|(_, name)| name.as_str()).collect()
    }

    pub(super) fn change(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        change(self.objects.get_mut(&(kind.name(), name.to_owned())).expect("should be there"));
    }

    pub(super) fn delete(&mut self, kind: Kind, name: &str) {
        self.objects.remove(&(kind.name(), name.to_owned())).expect("should be there");
    }

    pub(super) fn typed<K: DeserializeOwned>(&self, kind: Kind, name: &str) -> Option<Arc<K>> {
        let object = self.object(kind, name)?.clone();
        Some(Arc::new(serde_json::from_value(object).expect("should be an object of this kind")))
    }

    /// The nodes of the cluster.
    pub(super) fn nodes(&self) -> BTreeMap<Place, Arc<ValkeyNode>> {
        self.placed(Kind::ValkeyNode)
    }

    /// The certificates of those nodes.
    pub(super) fn bindings(&self) -> BTreeMap<Place, Arc<ValkeyCertificateBinding>> {
        self.placed(Kind::ValkeyCertificateBinding)
    }

    /// Objects of a kind that are of one node each.
    fn placed<K: DeserializeOwned + kube::Resource>(&self, kind: Kind) -> BTreeMap<Place, Arc<K>> {
        let placed = |name: &str| {
            let object: Arc<K> = self.typed(kind, name).expect("should be there");
            let number = |key: &str| object.labels().get(key)?.parse().ok();
            Some(((number(keys::SHARD_INDEX)?, number(keys::NODE_INDEX)?), object.clone()))
        };
        self.names_of(kind).into_iter().filter_map(placed).collect()
    }

    /// What the kubelets mount, as soon as both Secrets are there.
    fn mounted(&self) -> Option<Mounted> {
        let passwords = self.secret(&names::system_passwords_secret(CLUSTER))?;
        Some(Mounted {
            users_file: self.secret(&names::acl_secret(CLUSTER))?.remove("users.acl")?,
            replication: passwords.get(SystemUser::Replication.name())?.clone(),
            agent: passwords.get(SystemUser::Agent.name())?.clone(),
        })
    }

    /// What a Secret holds.
    pub(super) fn secret(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let secret: Arc<k8s_openapi::api::core::v1::Secret> = self.typed(Kind::Secret, name)?;
        let text =
            |bytes: &k8s_openapi::ByteString| String::from_utf8(bytes.0.clone()).expect("should be text");
        Some(secret.data.as_ref()?.iter().map(|(key, value)| (key.clone(), text(value))).collect())
    }

    /// What the API server makes of a write.
    pub(super) fn perform(&mut self, write: &Write, version: u32) {
        match write {
            Write::Apply { wanted, .. } => self.apply(wanted, version),
            Write::RemoveItems { kind, name, pointers, .. } => self.change(*kind, name, |object| {
                for pointer in pointers {
                    let (list, index) = pointer.rsplit_once('/').expect("should point into a list");
                    let items = object.pointer_mut(list).and_then(Value::as_array_mut);
                    items.expect("should be a list").remove(index.parse().expect("should be an index"));
                }
                object["metadata"]["resourceVersion"] = json!(version.to_string());
            }),
            Write::Delete { kind, name, uid, resource_version } => {
                let meta = &self.object(*kind, name).expect("should be there")["metadata"];
                assert_eq!((&meta["uid"], &meta["resourceVersion"]), (&json!(uid), &json!(resource_version)));
                self.delete(*kind, name);
            }
            Write::Merge { kind, name, .. } => panic!("nothing is merged into {} {name}", kind.name()),
        }
    }

    /// Server-side apply: our fields as wanted; labels and annotations of others stay.
    fn apply(&mut self, wanted: &Wanted, version: u32) {
        let key = (wanted.kind.name(), wanted.name.clone());
        let mut next = wanted.body.clone();
        next["metadata"]["uid"] = json!(format!("uid-of-{}-{version}", wanted.name));
        if let Some(there) = self.objects.get(&key) {
            for field in ["uid", "creationTimestamp", "deletionTimestamp"] {
                next["metadata"][field] = there["metadata"][field].clone();
            }
            for map in ["labels", "annotations"] {
                let theirs = there["metadata"][map].as_object().cloned().unwrap_or_default();
                let ours: &mut Map<String, Value> =
                    next["metadata"][map].as_object_mut().expect("should have labels and annotations");
                for (key, value) in theirs {
                    ours.entry(key).or_insert(value);
                }
            }
        }
        next["metadata"]["resourceVersion"] = json!(version.to_string());
        if wanted.kind == Kind::Service {
            for (field, value) in
                [("sessionAffinity", "None"), ("type", "ClusterIP"), ("clusterIP", "10.9.0.1")]
            {
                if next["spec"][field].is_null() {
                    next["spec"][field] = json!(value);
                }
            }
        }
        self.objects.insert(key, next);
    }
}

/// What controllers and kubelets do in a moment: a pod for each node, then an address and a server for each pod, and
/// Secrets that have changed arrive.
pub(super) fn tick(world: &mut World) {
    let nodes = world.kubernetes.nodes();
    let mounted = world.kubernetes.mounted();
    world.kubernetes.signed = world.kubernetes.bindings().into_keys().collect();
    world.kubernetes.pods.retain(|place, _| nodes.contains_key(place));
    world.servers.retain(|place, _| nodes.contains_key(place));
    for (place, node) in &nodes {
        match world.kubernetes.pods.get(place).map(|pod| pod.facts.address.is_some()) {
            None => {
                let number = world.next_number();
                world.kubernetes.pods.insert(*place, created(node.metadata.name.as_deref(), number));
            }
            Some(false) => start(world, *place, node, mounted.as_ref()),
            Some(true) => remount(world, *place, mounted.as_ref()),
        }
    }
    for (place, pod) in &mut world.kubernetes.pods {
        // Once it has known all slots, a pod stays ready.
        if world.servers.get(place).is_some_and(Server::knows_all_slots) {
            pod.facts.stage = PodStage::Ready;
        }
    }
}

fn created(node: Option<&str>, number: u32) -> Pod {
    let name = names::pod(node.expect("should have a name"));
    Pod {
        facts: PodFacts {
            name,
            uid: format!("uid-of-pod-{number}"),
            resource_version: number.to_string(),
            address: None,
            stage: PodStage::Starting,
            terminating: false,
            overdue: false,
            agent_is_new: false,
            zone: Some("zone-a".to_owned()),
        },
        mounted: None,
    }
}

/// Without its Secrets a pod does not start. A server that was there before starts again as who it was.
fn start(world: &mut World, place: Place, node: &ValkeyNode, mounted: Option<&Mounted>) {
    let Some(mounted) = mounted else { return };
    let number = world.next_number();
    let address = format!("10.0.{}.{}", number / 256, number % 256);
    if let Some(server) = world.servers.get_mut(&place) {
        server.restarted_at(number, &address, mounted);
    } else {
        let host = &node.spec.config["cluster-announce-hostname"];
        let mut server = Server::born(number, &address, host, mounted);
        server.version = world.release;
        world.servers.insert(place, server);
    }
    let pod = world.kubernetes.pods.get_mut(&place).expect("should have a pod");
    pod.facts.address = Some(address);
    pod.mounted = Some(mounted.clone());
}

/// Secrets that changed arrive, and the agent has the server read the users file if it is another one.
fn remount(world: &mut World, place: Place, mounted: Option<&Mounted>) {
    let pod = world.kubernetes.pods.get_mut(&place).expect("should have a pod");
    let (Some(mounted), Some(server)) = (mounted, world.servers.get_mut(&place)) else { return };
    if world.late_mounts.contains(&place) {
        return;
    }
    if pod.mounted.as_ref().is_none_or(|before| before.users_file != mounted.users_file) {
        server.users = mounted.users();
    }
    pod.mounted = Some(mounted.clone());
}
