//! What an application does: it knows one name, a user and a password.

use e2e::{World, world};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

/// As an application in the namespace would: through the Service, following redirections.
async fn say(world: &World, user: &str, password: &str, words: &[&str]) -> String {
    let login = ["--user", user, "--pass", password, "--no-auth-warning"];
    let mut command = vec!["valkey-cli", "-c", "-h", "valkey-store-client"];
    command.extend(login.iter().chain(words));
    world.exec("valkey-store-0-1-0", &command).await
}

#[tokio::test]
async fn an_application_writes_and_reads_through_the_client_service() {
    world::run("clients", async |world| {
        let secret = json!({"metadata": {"name": "store-users"}, "stringData": {"app": "app-secret-1", "reader": "reader-secret-1"}});
        world.create::<Secret>(secret).await;
        let users = json!([
            {"name": "app", "keys": {"readWrite": ["app:*"]}, "commands": {"allow": ["@all"], "deny": ["@dangerous"]}},
            {"name": "reader", "keys": {"readOnly": ["app:*"]}, "commands": {"allow": ["@read", "@connection", "cluster|slots"]}},
        ]);
        world.ready_cluster("store", json!({"shards": 3, "replicas": 1, "users": users})).await;

        // Enough keys for every shard to have some.
        for number in 0..12 {
            let (key, value) = (format!("app:{number}"), format!("value-{number}"));
            assert_eq!(say(world, "app", "app-secret-1", &["set", &key, &value]).await, "OK");
            assert_eq!(say(world, "reader", "reader-secret-1", &["get", &key]).await, value);
        }
        let mut keys = 0;
        for server in world.cluster_servers("store").await {
            let info = server.open().await.expect("should answer").info_all().await.expect("should answer");
            let holds = info.get("db0").expect("every server should hold some of the keys").to_owned();
            let count: u32 = holds.trim_start_matches("keys=").split(',').next().unwrap().parse().unwrap();
            keys += count;
        }
        assert_eq!(keys, 24, "each key on a primary and on its copy");

        for (user, password, words, refusal) in [
            ("app", "app-secret-1", ["set", "other", "1"], "NOPERM"),
            ("app", "app-secret-1", ["config", "get", "save"], "NOPERM"),
            ("reader", "reader-secret-1", ["set", "app:0", "1"], "NOPERM"),
            ("app", "wrong", ["get", "app:0", ""], "WRONGPASS"),
        ] {
            let said = say(world, user, password, &words).await;
            assert!(said.contains(refusal), "{user} {words:?}: {said}");
        }
    })
    .await;
}
