//! How soon a change of users works on every server.

use std::time::Duration;

use e2e::clusters::Logins;
use e2e::world;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

/// How long it may take.
const SOON: Duration = Duration::from_secs(2);
/// How often each change is made.
const ROUNDS: usize = 5;

#[tokio::test]
async fn users_and_passwords_work_everywhere_within_two_seconds() {
    world::run("users-measured", async |world| {
        let user = |name: &str| json!({"name": name, "permissions": "+@all ~*"});
        let passwords = json!({"ann": "ann-0", "bob": "bob-0"});
        world.create::<Secret>(json!({"metadata": {"name": "live-users"}, "stringData": passwords})).await;
        world.ready_cluster("live", json!({"shards": 3, "replicas": 1, "users": [user("ann")]})).await;
        let servers = world.cluster_servers("live").await;
        let mut times = Vec::new();
        for round in 1..=ROUNDS {
            let (old, new) = (format!("ann-{}", round - 1), format!("ann-{round}"));
            let change = async {
                world.patch::<Secret>("live-users", json!({"stringData": {"ann": new}})).await;
            };
            let logins = Logins { good: &[("ann", &new)], bad: &[("ann", &old)] };
            times.push(logins.after("a changed password", change, &servers, SOON).await);

            let change = world.change_cluster("live", json!({"users": [user("ann"), user("bob")]}));
            let logins = Logins { good: &[("ann", &new), ("bob", "bob-0")], bad: &[] };
            times.push(logins.after("a new user", change, &servers, SOON).await);

            let change = world.change_cluster("live", json!({"users": [user("ann")]}));
            let logins = Logins { good: &[("ann", &new)], bad: &[("bob", "bob-0")] };
            times.push(logins.after("a removed user", change, &servers, SOON).await);
        }
        times.sort_unstable();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        eprintln!("{} changes of users: median {median:?}, longest {longest:?}", times.len());
        assert!(longest <= SOON, "{longest:?}");
    })
    .await;
}
