//! What cannot be built is said with its field and without any value; what can is complete.

use std::collections::BTreeMap;

use api::cluster::Images;
use api::{ValkeyCluster, ValkeyClusterStatus, keys};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::super::validate::{Data, Desired, validate};
use super::world::{SECRET, cluster};
use crate::settings::Settings;
use crate::violation::Violation;

fn violations(cluster: &ValkeyCluster) -> Vec<String> {
    let refused = validate(cluster, &Settings::default()).expect_err("should be refused");
    refused.iter().map(Violation::to_string).collect()
}

fn valid(cluster: &ValkeyCluster) -> Desired {
    validate(cluster, &Settings::default()).expect("should be valid")
}

fn named(name: &str) -> ValkeyCluster {
    let mut cluster = cluster("shards: 1");
    cluster.metadata.name = Some(name.to_owned());
    cluster
}

#[test]
fn every_problem_is_named_by_its_field() {
    let shards = "spec.shards: must be between 1 and 500";
    let replicas = "spec.replicas: must be between 0 and 10";
    let reserved = "usernames starting with '_' are reserved for system users";
    let blank = "is empty or has a blank in it";
    for (spec, expected) in [
        ("shards: 0", shards.to_owned()),
        ("shards: 501", shards.to_owned()),
        ("shards: -1", shards.to_owned()),
        ("{shards: 1, replicas: 11}", replicas.to_owned()),
        ("{shards: 1, replicas: -1}", replicas.to_owned()),
        ("{shards: 1, containers: [{image: x}]}", "spec.containers[0].name: is missing".to_owned()),
        (
            "{shards: 1, containers: [{name: valkey}, {name: server}]}",
            "spec.containers[1].name: names a container that another item names too".to_owned(),
        ),
        ("{shards: 1, users: [{name: _operator}]}", format!("spec.users[0].name: {reserved}")),
        ("{shards: 1, users: [{name: ''}]}", format!("spec.users[0].name: {blank}")),
        ("{shards: 1, users: [{name: 'a b'}]}", format!("spec.users[0].name: {blank}")),
        ("{shards: 1, users: [{name: ann}, {name: ann}]}", "spec.users[1].name: is given twice".to_owned()),
    ] {
        assert_eq!(violations(&cluster(spec)), [expected], "{spec}");
    }
}

#[test]
fn a_directive_that_cannot_be_written_is_refused_without_its_value() {
    let refused = violations(&cluster(&format!("{{shards: 1, config: {{'bad name': {SECRET}}}}}")));
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("spec.config: "), "{refused:?}");
    assert!(refused[0].contains("bad name") && !refused[0].contains(SECRET), "{refused:?}");
}

#[test]
fn all_problems_are_told_at_once() {
    let spec = "{shards: 0, replicas: 11, users: [{name: _a}], containers: [{}]}";
    assert_eq!(violations(&cluster(spec)).len(), 4);
}

#[test]
fn a_name_must_fit_and_be_one_label() {
    assert_eq!(violations(&named(&"n".repeat(39))), ["metadata.name: has more than 38 characters"]);
    assert_eq!(
        violations(&named("a.b")),
        ["metadata.name: contains a dot, but Services have single DNS labels"]
    );
    assert_eq!(valid(&named(&"n".repeat(38))).identity.name.len(), 38);
    for field in ["name", "namespace", "uid"] {
        let mut unborn = named("gamma");
        match field {
            "name" => unborn.metadata.name = None,
            "namespace" => unborn.metadata.namespace = None,
            _ => unborn.metadata.uid = None,
        }
        assert_eq!(violations(&unborn), ["metadata: has no name, namespace or uid"], "{field}");
    }
}

#[test]
fn what_a_spec_leaves_open_is_completed() {
    let desired = valid(&cluster("{shards: 3, replicas: 2}"));
    assert_eq!((desired.shards, desired.replicas, desired.node_count()), (3, 2, 9));
    assert_eq!(desired.places().count(), 9);
    assert_eq!(desired.places().last(), Some((2, 2)));
    assert_eq!(desired.data, Data::Volatile);
    assert!(desired.exporter.is_some());
    let settings = Settings::default();
    assert_eq!(desired.images.server, settings.server_image);
    assert_eq!(desired.images.exporter, settings.exporter_image);
    assert_eq!(desired.agent.image, settings.agent_image);
    assert_eq!(valid(&cluster("{shards: 1, exporter: {enabled: false}}")).exporter, None);
    assert_eq!(valid(&cluster("{shards: 1, persistence: {size: 1Gi}}")).data, Data::Kept);
    let external = "{shards: 1, persistence: {mode: external, existingClaim: mine}}";
    assert_eq!(valid(&cluster(external)).data, Data::Kept);
}

#[test]
fn images_are_those_of_the_spec_then_those_the_cluster_was_made_with() {
    let mut made = cluster("{shards: 1, exporter: {enabled: true, image: mine/exporter:1}}");
    made.status = Some(ValkeyClusterStatus {
        images: Some(Images {
            server: Some("old/server:1".to_owned()),
            exporter: Some("old/exporter:1".to_owned()),
            agent: None,
        }),
        ..ValkeyClusterStatus::default()
    });
    let desired = valid(&made);
    assert_eq!(desired.images.server, "old/server:1");
    assert_eq!(desired.images.exporter, "mine/exporter:1");
    assert_eq!(desired.agent.image, Settings::default().agent_image);
    assert_eq!(
        desired.pinned.exporter.as_deref(),
        Some("old/exporter:1"),
        "what was the default stays known"
    );
    made.spec.image = Some("mine/server:2".to_owned());
    assert_eq!(valid(&made).images.server, "mine/server:2");
}

#[test]
fn a_pod_with_a_container_called_like_the_sidecar_gets_none() {
    let settings = Settings::default();
    let agent = |spec: &str| validate(&cluster(spec), &settings).expect("should be valid").agent.operator;
    assert!(agent("shards: 1").is_some_and(|operator| operator.ends_with(":17379")));
    assert_eq!(agent("{shards: 1, containers: [{name: valkey-sidecar, image: mine}]}"), None);
}

#[test]
fn orders_are_read_from_annotations() {
    let ordered = |key: &str, value: &str| {
        let mut cluster = cluster("shards: 1");
        cluster.metadata.annotations = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
        valid(&cluster)
    };
    assert!(ordered(keys::ACCEPT_DATA_LOSS, "true").data_loss_accepted);
    assert!(!ordered(keys::ACCEPT_DATA_LOSS, "yes").data_loss_accepted, "only the very word counts");
    assert_eq!(ordered(keys::RESTARTED_AT, "now").restarted_at.as_deref(), Some("now"));
    assert_eq!(ordered(keys::ROTATE_SYSTEM_PASSWORDS, "now").rotation.as_deref(), Some("now"));
    assert_eq!(ordered(keys::ROTATE_SYSTEM_PASSWORDS, "").rotation, None);
}

#[test]
fn the_official_name_of_the_servers_container_is_ours_too() {
    let desired =
        valid(&cluster("{shards: 1, containers: [{name: server, image: one}, {name: mine, image: two}]}"));
    assert_eq!(
        desired.container_overlays,
        [json!({"name": "valkey", "image": "one"}), json!({"name": "mine", "image": "two"})]
    );
}
