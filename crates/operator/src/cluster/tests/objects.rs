//! Every object of a cluster, as it is written. A changed pod restarts every server at the next upgrade of the operator.

use std::collections::BTreeSet;

use insta::{assert_snapshot, assert_yaml_snapshot};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use valkey::acl::{Declaration, User};

use super::super::observe::Observed;
use super::super::plan;
use super::super::topology::Topology;
use super::super::users::{self, Judged, Passwords, passwords};
use super::convergence::spec;
use super::described;
use super::world::{NAMESPACE, SECRET, World};
use crate::objects::{Kind, Wanted, Write};
use crate::settings::Settings;

const FULL: &str = "
shards: 3
replicas: 1
persistence: {size: 1Gi}
exporter: {enabled: true, args: [--check-keys=a*]}
users: [{name: ann, permissions: '+@read ~a:*', passwordSecret: {name: passwords}}]
config: {maxmemory-policy: allkeys-lru}
";

/// Everything that is written for a cluster of which nothing exists yet, with users that a server has judged.
fn wanted() -> Vec<Wanted> {
    wanted_with(Settings::default())
}

fn wanted_with(settings: Settings) -> Vec<Wanted> {
    let mut world = World::empty(FULL);
    world.settings = settings;
    let (desired, mut observed) = (world.desired(), Observed::default());
    observed.certificates.stored = desired.places().collect();
    let topology = Topology::of(&observed, NAMESPACE);
    let ann = Declaration {
        name: "ann".to_owned(),
        enabled: true,
        passwords: vec![format!("{SECRET}-of-ann").into()],
        permissions: "+@read ~a:*".to_owned(),
        ..Declaration::default()
    };
    let ann = User::declared(&ann).expect("should be a user");
    let held = passwords::choose(&desired, None, &Passwords::default(), || SECRET.into());
    let declared = Judged { users: Some(vec![ann]), problems: Vec::new() };
    let users =
        users::assemble(&desired, &observed, &topology, &world.status(), held, &declared, || SECRET.into());
    let plan = plan::plan(
        &desired,
        &observed,
        &topology,
        &users,
        &world.status(),
        &BTreeSet::new(),
        &BTreeSet::new(),
    );
    let applied = |write: Write| match write {
        Write::Apply { wanted, create: true, .. } => wanted,
        other => panic!("nothing is there to be changed: {}", described(&other)),
    };
    plan.writes.into_iter().map(applied).collect()
}

/// The same without what is secret or follows from it.
fn redacted(mut wanted: Wanted) -> Value {
    if wanted.kind == Kind::Secret {
        let data = wanted.body["data"].as_object_mut().expect("should have data");
        data.values_mut().for_each(|value| *value = json!("[redacted]"));
        wanted.body["metadata"]["annotations"][api::keys::APPLIED] = json!("[redacted]");
    }
    wanted.body
}

#[test]
fn objects_of_a_cluster_with_volumes_exporters_and_users() {
    let bodies: Vec<Value> = wanted().into_iter().map(redacted).collect();
    assert!(!json!(bodies).to_string().contains(SECRET));
    let (common, nodes): (Vec<Value>, Vec<Value>) =
        bodies.into_iter().partition(|body| body["kind"] != "ValkeyNode");
    assert_yaml_snapshot!("objects_of_the_cluster_as_a_whole", common);
    assert_eq!(nodes.len(), 6);
    assert_yaml_snapshot!("the_first_node", nodes[0]);
    // The others are the same in other words.
    let first = serde_json::to_string(&nodes[0]).expect("should be JSON");
    for (place, node) in [(1, 0), (2, 0), (0, 1), (1, 1), (2, 1)].into_iter().zip(&nodes[1..]) {
        let (shard, index) = place;
        let mut expected: Value = serde_json::from_str(
            &first
                .replace("gamma-0-0", &format!("gamma-{shard}-{index}"))
                .replace("gamma-cluster-pod-0-0", &format!("gamma-cluster-pod-{shard}-{index}"))
                .replace("\"valkey.io/shard-index\":\"0\"", &format!("\"valkey.io/shard-index\":\"{shard}\""))
                .replace("\"valkey.io/node-index\":\"0\"", &format!("\"valkey.io/node-index\":\"{index}\"")),
        )
        .expect("should be JSON");
        expected["metadata"]["annotations"][api::keys::APPLIED] =
            node["metadata"]["annotations"][api::keys::APPLIED].clone();
        assert_eq!(*node, expected, "{place:?}");
    }
}

/// Pods of an older operator stay as they are.
#[test]
fn pods_without_an_agent_beside_the_server_are_still_made_as_they_were() {
    let bodies: Vec<Value> =
        wanted_with(Settings { sidecars: false, ..Settings::default() }).into_iter().map(redacted).collect();
    let node = bodies.iter().find(|body| body["kind"] == "ValkeyNode").expect("should be written");
    assert_yaml_snapshot!("the_first_node_without_a_sidecar", node);
    assert!(bodies.iter().all(|body| !body["kind"].as_str().unwrap_or_default().contains("Certificate")));
}

#[test]
fn secrets_come_before_pods_that_mount_them_and_names_before_pods_that_have_them() {
    let order: Vec<String> = wanted().iter().map(|one| format!("{} {}", one.kind.name(), one.name)).collect();
    assert_snapshot!(order.join("\n"));
}

#[test]
fn the_users_file_holds_the_operators_users_first_and_no_password() {
    let file = wanted().into_iter().find(|one| one.name == "internal-gamma-acl").expect("should be written");
    let secret: k8s_openapi::api::core::v1::Secret =
        serde_json::from_value(file.body).expect("should be a Secret");
    let bytes = secret.data.unwrap_or_default().remove("users.acl").expect("should hold the file");
    let text = String::from_utf8(bytes.0).expect("should be text");
    assert!(!text.contains(SECRET));
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(names, ["_revision", "_agent", "_exporter", "_operator", "_replication", "ann"]);
}

#[test]
fn without_a_budget_or_an_exporter_there_is_none() {
    let bare =
        format!("{}\npodDisruptionBudget: {{mode: Disabled}}\nexporter: {{enabled: false}}", spec(1, 0));
    let mut world = World::empty(&bare);
    world.kubernetes.signed.insert((0, 0));
    let written = world.pass().written;
    assert_eq!(
        written,
        [
            "create Secret internal-gamma-system-passwords",
            "create Secret internal-gamma-acl",
            "create ValkeyCertificateBundle gamma-mtls",
            "create ValkeyCertificateBinding gamma-operator",
            "create ValkeyCertificateBinding gamma-0-0",
            "create Service valkey-gamma",
            "create Service valkey-gamma-client",
            "create ValkeyNode gamma-0-0",
        ]
    );
    let passwords = world.kubernetes.secret("internal-gamma-system-passwords").expect("should be there");
    assert_eq!(passwords.into_keys().collect::<Vec<_>>(), ["_agent", "_operator", "_replication"]);
}

#[test]
fn an_object_that_somebody_changed_is_applied_again_and_what_was_added_stays() {
    let mut world = World::settled(&spec(1, 1));
    world.kubernetes.change(Kind::Service, "valkey-gamma-client", |service| {
        service["spec"]["selector"]["valkey.io/cluster"] = json!("other");
        service["metadata"]["labels"]["mine"] = json!("yes");
    });
    assert_eq!(world.pass().written, ["apply Service valkey-gamma-client"]);
    let service = world.kubernetes.object(Kind::Service, "valkey-gamma-client").expect("should be there");
    assert_eq!(service["spec"]["selector"]["valkey.io/cluster"], json!("gamma"));
    assert_eq!(service["metadata"]["labels"]["mine"], json!("yes"));
    assert!(world.come_to_rest(4).is_some());
}
