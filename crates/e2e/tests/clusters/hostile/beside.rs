//! New clusters that cannot be, beside one that serves.

use api::ValkeyCluster;
use e2e::World;
use e2e::clusters::condition;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::subject::{IN_TIME, Problems, eventually, lacks};
use super::with;

/// Name, spec, reason of Ready, words of its message.
type Row = (&'static str, Value, &'static str, &'static [&'static str]);

fn rows() -> Vec<Row> {
    let of = |more: Value| with(json!({"shards": 1, "exporter": {"enabled": false}}), &more);
    let taken = "NameCollision";
    let silent = "NodesNotReachable";
    let tls = json!({"networking": {"tls": {"certificates": {"server": {"secretName": "not-there"}}}}});
    vec![
        ("no-certificate", of(tls), "TlsSecretUnusable", &["not-there", "networking.tls", "does not exist"]),
        ("taken-a", of(json!({})), taken, &["Service valkey-taken-a-client", "remove that object"]),
        ("taken-b", of(json!({})), taken, &["Secret internal-taken-b-acl", "remove that object"]),
        ("taken-c", of(json!({})), taken, &["PodDisruptionBudget valkey-taken-c", "remove that object"]),
        (
            "no-claim",
            of(json!({"persistence": {"mode": "external", "existingClaim": "not-there"}})),
            silent,
            &["no-claim-0-0", "not-there-0-0"],
        ),
        (
            "no-start",
            of(json!({"config": {"no-such-thing": "1"}})),
            silent,
            &["no-start-0-0", "no-such-thing"],
        ),
        (
            "no-room",
            of(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            silent,
            &["no-room-0-0", "resources.requests"],
        ),
    ]
}

/// All of them at once; returns how many.
pub(super) async fn judge(world: &World, problems: &Problems) -> usize {
    let port = json!({"ports": [{"port": 80}], "selector": {"x": "y"}});
    world.create::<Service>(json!({"metadata": {"name": "valkey-taken-a-client"}, "spec": port})).await;
    let theirs = json!({"metadata": {"name": "internal-taken-b-acl"}, "stringData": {"theirs": "1"}});
    world.create::<Secret>(theirs).await;
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}});
    world
        .create::<PodDisruptionBudget>(json!({"metadata": {"name": "valkey-taken-c"}, "spec": budget}))
        .await;
    let rows = rows();
    for (name, spec, ..) in &rows {
        world.cluster(name, spec.clone()).await;
    }
    for (name, _, reason, says) in &rows {
        let seen =
            eventually(IN_TIME, async || match condition(&world.cluster_status(name).await, "Ready") {
                Some((state, is, message))
                    if state == "False" && is == *reason && lacks(&message, says).is_empty() =>
                {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            });
        problems.note(name, seen.await.map_err(|seen| format!("not {reason} with {says:?} but {seen}")));
    }
    let selector = world.get::<Service>("valkey-taken-a-client").await.spec.and_then(|spec| spec.selector);
    let same = selector.is_some_and(|selector| selector.len() == 1 && selector.contains_key("x"));
    problems.note("taken-a", if same { Ok(()) } else { Err("their Service was changed".to_owned()) });
    let data = world.get::<Secret>("internal-taken-b-acl").await.data.unwrap_or_default();
    let same = data.len() == 1 && data.contains_key("theirs");
    problems.note("taken-b", if same { Ok(()) } else { Err("their Secret was changed".to_owned()) });
    for (name, ..) in &rows {
        world.delete::<ValkeyCluster>(name).await;
    }
    rows.len()
}
