//! Users change on running servers, on all of them, at once.

use std::time::{Duration, Instant};

use e2e::clusters::{Logins, Server};
use e2e::{World, wait, world};
use k8s_openapi::api::core::v1::{Pod, Secret};
use secrecy::SecretString;
use serde_json::{Value, json};
use valkey::acl::hash_password;

use crate::config::processes;

/// How long a change may take until it works on every server, while other tests run. How long it takes without them is
/// measured elsewhere.
const SOON: Duration = Duration::from_secs(15);
/// How long kubelets may take to bring a changed Secret into running pods, and the agents to notice.
const FILES_ARRIVE: Duration = Duration::from_mins(4);

/// Everybody may do everything with what begins with their name.
fn user(name: &str, keys: &[&str]) -> Value {
    let permissions = format!("+@all ~{name}:*");
    json!({"name": name, "passwordSecret": {"name": "passwords", "keys": keys}, "permissions": permissions})
}

async fn set_users(world: &World, users: Vec<Value>) {
    world.change_cluster("live", json!({"users": users})).await;
}

async fn set_passwords(world: &World, passwords: Value) {
    world.patch::<Secret>("passwords", json!({"stringData": passwords})).await;
}

#[tokio::test]
async fn users_change_on_every_server_at_once_and_without_restarts() {
    world::run("users", async |world| {
        let hashed = format!("#{}", hash_password(&SecretString::from("known-by-hash")));
        let passwords = json!({"ann": "ann-1", "bob": "bob-1", "second": "bob-2", "hashed": hashed});
        world.create::<Secret>(json!({"metadata": {"name": "passwords"}, "stringData": passwords})).await;
        world
            .ready_cluster("live", json!({"shards": 3, "replicas": 1, "users": [user("ann", &["ann"])]}))
            .await;
        let servers = world.cluster_servers("live").await;
        assert_eq!(servers.len(), 6);
        let before = processes(world, "live").await;

        let ann = user("ann", &["ann"]);
        let logins = Logins { good: &[("ann", "ann-1"), ("bob", "bob-1")], bad: &[("bob", "bob-2")] };
        let change = set_users(world, vec![ann.clone(), user("bob", &["bob"])]);
        logins.after("a user is added", change, &servers, SOON).await;

        let logins = Logins { good: &[("ann", "ann-2"), ("bob", "bob-1")], bad: &[("ann", "ann-1")] };
        let change = set_passwords(world, json!({"ann": "ann-2"}));
        logins.after("a password is changed in its Secret", change, &servers, SOON).await;

        let logins = Logins { good: &[("bob", "bob-1"), ("bob", "bob-2")], bad: &[("bob", "bob-3")] };
        let change = set_users(world, vec![ann.clone(), user("bob", &["bob", "second"])]);
        logins.after("a second password is added", change, &servers, SOON).await;

        let logins = Logins { good: &[("bob", "known-by-hash")], bad: &[("bob", "bob-1"), ("bob", &hashed)] };
        let change = set_users(world, vec![ann.clone(), user("bob", &["hashed"])]);
        logins.after("a hash takes the place of passwords", change, &servers, SOON).await;

        let logins = Logins { good: &[], bad: &[("ann", "ann-2")] };
        let mut disabled = ann.clone();
        disabled["enabled"] = json!(false);
        let change = set_users(world, vec![disabled, user("bob", &["hashed"])]);
        logins.after("a user is disabled", change, &servers, SOON).await;

        let logins = Logins { good: &[("ann", "ann-2")], bad: &[("bob", "known-by-hash")] };
        logins.after("a user is removed", set_users(world, vec![ann]), &servers, SOON).await;

        check_rights(&servers).await;
        world.wait_cluster_ready("live").await;
        assert_eq!(processes(world, "live").await, before, "nothing was restarted");
        files_follow(world, &servers).await;
        assert_eq!(processes(world, "live").await, before, "nothing was restarted");
        a_new_pod_has_them_too(world).await;
    })
    .await;
}

async fn check_rights(servers: &[Server]) {
    for server in servers {
        let connection = server.open_as("ann", "ann-2").await.expect("should be let in");
        let refused = connection.raw(&["SET", "bob:1", "x"]).await.expect_err("the key is not hers");
        let words = refused.server_message().unwrap_or_default().to_owned();
        assert!(words.contains("NOPERM") || words.contains("No permissions"), "{}: {words}", server.node);
    }
}

/// The file each server would start with arrives later; the status says when.
async fn files_follow(world: &World, servers: &[Server]) {
    let begun = Instant::now();
    let acl = wait::until("the users' file has arrived everywhere", FILES_ARRIVE, async || {
        let acl = world.cluster_status("live").await.acl.unwrap_or_default();
        if acl.synced { Ok(acl) } else { Err(acl) }
    })
    .await;
    eprintln!("the file of users: in all pods after {:?}", begun.elapsed());
    world.wait_cluster_condition("live", "UsersApplied", "True", "UsersInStep").await;
    for server in servers {
        let listed = server.open().await.expect("should answer").acl_list().await.expect("should list");
        assert_eq!(valkey::acl::loaded_revision(&listed), acl.revision, "{}", server.node);
    }
}

async fn a_new_pod_has_them_too(world: &World) {
    let node = "live-1-1";
    let before = world.cluster_server("live", node).await;
    let users = before.users().await;
    world.delete::<Pod>(&api::names::pod(node)).await;
    wait::until("another pod is ready", e2e::nodes::PATIENCE, async || {
        let pod = world.find::<Pod>(&api::names::pod(node)).await;
        let status = world.status(node).await;
        let other = pod.is_some_and(|pod| pod.metadata.uid != before.pod.metadata.uid);
        if other && status.ready { Ok(()) } else { Err((other, status.ready)) }
    })
    .await;
    world.wait_cluster_ready("live").await;
    assert_eq!(world.cluster_server("live", node).await.users().await, users);
    world.wait_whole("live", Duration::from_secs(30)).await;
}
