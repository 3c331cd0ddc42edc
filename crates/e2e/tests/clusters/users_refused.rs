//! Users that cannot be: they are reported, and what servers have stays as it is.

use std::time::Duration;

use e2e::clusters::{condition, everywhere};
use e2e::invariants::{self, secrets};
use e2e::{World, wait, world};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

async fn state(world: &World) -> (Vec<Vec<String>>, Option<String>) {
    let mut users = Vec::new();
    for server in world.cluster_servers("strict").await {
        users.push(server.users().await);
    }
    (users, world.get::<Secret>("internal-strict-acl").await.resource_version())
}

async fn refuses(world: &World, users: Value, reason: &str, words: &[&str]) {
    let before = state(world).await;
    world.change_cluster("strict", json!({"users": users})).await;
    wait::until(&format!("{reason} is told with {words:?}"), SOON, async || {
        let status = world.cluster_status("strict").await;
        match condition(&status, "UsersApplied") {
            Some((state, is, message))
                if state == "False" && is == reason && words.iter().all(|word| message.contains(word)) =>
            {
                Ok(())
            }
            other => Err(other),
        }
    })
    .await;
    wait::always("nothing changes", Duration::from_secs(3), async || {
        let now = state(world).await;
        if now == before { Ok(()) } else { Err(now) }
    })
    .await;
    let status = world.cluster_status("strict").await;
    assert_eq!(status.phase, Some(api::cluster::ClusterPhase::Ready), "the cluster serves on");
    world.wait_event("strict", &format!("{reason}: ")).await;
}

#[tokio::test]
async fn users_that_cannot_be_applied_are_reported_and_change_nothing() {
    world::run("users-refused", async |world| {
        let secret =
            json!({"metadata": {"name": "strict-users"}, "stringData": {"good": "good-1", "empty": ""}});
        world.create::<Secret>(secret).await;
        let good = json!({"name": "good", "permissions": "+@read ~*"});
        world.ready_cluster("strict", json!({"shards": 1, "replicas": 1, "users": [good]})).await;

        // Beside each bad user there is a good change, which must not be made alone.
        let changed = json!({"name": "good", "permissions": "+@all ~*"});
        let with = |bad: Value| json!([changed, bad]);
        let elsewhere = json!({"name": "late", "passwordSecret": {"name": "not-there"}});
        refuses(world, with(elsewhere.clone()), "PasswordSecretMissing", &["not-there", "late"]).await;
        let no_key = json!({"name": "late", "passwordSecret": {"keys": ["nothing"]}});
        refuses(world, with(no_key), "PasswordSecretMissing", &["strict-users", "nothing", "late"]).await;
        let empty = json!({"name": "late", "passwordSecret": {"keys": ["empty"]}});
        refuses(world, with(empty), "PasswordSecretMissing", &["strict-users", "empty"]).await;
        let wrong = json!({"name": "late", "nopass": true, "permissions": "+no-such-command ~*"});
        refuses(world, with(wrong), "UsersRefused", &["late", "no-such-command", "Unknown command"]).await;

        // What is missing may come later.
        let servers = world.cluster_servers("strict").await;
        world.change_cluster("strict", json!({"users": with(elsewhere)})).await;
        world.wait_cluster_condition("strict", "UsersApplied", "False", "PasswordSecretMissing").await;
        world
            .create::<Secret>(json!({"metadata": {"name": "not-there"}, "stringData": {"late": "late-1"}}))
            .await;
        let took =
            everywhere("the user of a late Secret", &servers, Duration::from_secs(10), async |server| {
                Ok(if server.lets_in("late", "late-1").await? { Ok(()) } else { Err("not let in") })
            })
            .await;
        eprintln!("a Secret that came late: on all {} servers after {took:?}", servers.len());
        // The servers know a moment before the status says so, and the phase stays what it was.
        wait::until("the users of the spec are told of as applied", SOON, async || {
            match condition(&world.cluster_status("strict").await, "UsersApplied") {
                Some((state, ..)) if state == "True" => Ok(()),
                other => Err(other),
            }
        })
        .await;
    })
    .await;
}

/// No condition, event or object that everybody may read repeats a password.
#[tokio::test]
async fn no_password_is_repeated() {
    world::run("users-silent", async |world| {
        let secret = json!({"metadata": {"name": "quiet-users"}, "stringData": {"app": "hush-hush-42"}});
        world.create::<Secret>(secret).await;
        let app = json!({"name": "app", "permissions": "+@all ~*"});
        world.ready_cluster("quiet", json!({"shards": 1, "replicas": 1, "users": [app]})).await;
        let bad = json!({"name": "app", "permissions": "+@all ~* +nonsense"});
        world.change_cluster("quiet", json!({"users": [bad]})).await;
        world.wait_cluster_condition("quiet", "UsersApplied", "False", "UsersRefused").await;
        let held = world.get::<Secret>("internal-quiet-system-passwords").await.data.unwrap_or_default();
        let mut passwords: Vec<(String, String)> = held
            .into_iter()
            .map(|(user, value)| (user, String::from_utf8(value.0).expect("should be text")))
            .collect();
        passwords.push(("app".to_owned(), "hush-hush-42".to_owned()));
        let passwords: Vec<(&str, &str)> =
            passwords.iter().map(|(user, password)| (user.as_str(), password.as_str())).collect();
        let texts = secrets::readable_texts(world, "valkeyclusters").await;
        invariants::hold("passwords are secret", &secrets::leaks(&passwords, &texts));
    })
    .await;
}
