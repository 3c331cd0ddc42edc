//! The writes of a new cluster, against an API server that refuses one of them.

use api::keys;
use kit::testing::{self, failure, object};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::convergence::spec;
use super::world::{NAMESPACE, World};
use crate::objects::{Stopped, Writer};

/// What is written of a cluster of two shards when this object is refused.
async fn written_without(refused: &'static str) -> Vec<String> {
    let mut world = World::empty(&spec(2, 1));
    world.kubernetes.signed = world.desired().places().collect();
    let observed = world.observe();
    let plan = world.plan_for(&observed);
    let (client, _) = testing::client(move |call| {
        let answer = match call.method.as_str() {
            "GET" => failure(404, "NotFound", "not found"),
            _ if call.path.ends_with(refused) => failure(403, "Forbidden", "a policy says no"),
            _ => object(&json!({"metadata": {"name": "x"}})),
        };
        async move { answer }
    });
    let writer = Writer { client: &client, namespace: NAMESPACE, manager: keys::CLUSTER_FIELD_MANAGER };
    let mut written = Vec::new();
    let stopped = writer.perform_all(&plan.writes, |_, _| false, &mut written).await;
    let Err(Stopped::Failed(error)) = stopped else { panic!("should have failed: {stopped:?}") };
    assert_eq!(error.refusal(), Some("a policy says no"));
    written
}

#[tokio::test]
async fn nothing_is_written_after_what_was_refused() {
    assert_eq!(written_without("/secrets/internal-gamma-system-passwords").await, Vec::<String>::new());
    assert_eq!(
        written_without("/valkeycertificatebundles/gamma-mtls").await,
        ["Secret internal-gamma-system-passwords", "Secret internal-gamma-acl"],
        "passwords are stored before the file with their hashes"
    );
    let written = written_without("/services/valkey-gamma").await;
    assert_eq!(written.len(), 8, "the bundle and five bindings come next: {written:?}");
}

/// Nodes do not wait for each other.
#[tokio::test]
async fn a_refused_node_keeps_no_other_from_being_written() {
    let written = written_without("/valkeynodes/gamma-0-0").await;
    let nodes: Vec<_> = written.iter().filter(|what| what.starts_with("ValkeyNode")).collect();
    assert_eq!(nodes, ["ValkeyNode gamma-1-0", "ValkeyNode gamma-0-1", "ValkeyNode gamma-1-1"]);
}
