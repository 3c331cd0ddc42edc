//! New passwords for the operator's own users while everything runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{ValkeyCluster, keys, names};
use e2e::clusters::Logins;
use e2e::{World, wait, world};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use serde_json::json;
use valkey::acl::SystemUser;
use valkey::{Connection, Target};

use crate::config::processes;

const CLUSTER: &str = "turn";
/// How long kubelets may take to bring a changed Secret into running pods, and the agents to notice.
const FILES_ARRIVE: Duration = Duration::from_mins(4);
/// How long links between servers may take to come back.
const LINKS_RETURN: Duration = Duration::from_secs(30);

/// What the Secret holds, by key.
async fn passwords(world: &World) -> BTreeMap<String, String> {
    let secret = world.get::<Secret>(&names::system_passwords_secret(CLUSTER)).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a password should be text");
    secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, text(value.0))).collect()
}

/// Which pods there are, and how often their containers were restarted.
async fn pods(world: &World) -> Vec<(Option<String>, i32)> {
    let pods = world.cluster_pods(CLUSTER).await.into_iter().flatten();
    let restarts = |pod: &Pod| {
        let containers = pod.status.as_ref().and_then(|status| status.container_statuses.clone());
        containers.unwrap_or_default().iter().map(|container| container.restart_count).sum()
    };
    pods.map(|pod| (pod.uid(), restarts(&pod))).collect()
}

/// Order a rotation and wait until it is over; returns what the Secret holds then.
async fn rotate(world: &World, order: &str) -> BTreeMap<String, String> {
    let begun = Instant::now();
    let annotations = json!({keys::ROTATE_SYSTEM_PASSWORDS: order});
    world.patch::<ValkeyCluster>(CLUSTER, json!({"metadata": {"annotations": annotations}})).await;
    wait::until(&format!("rotation {order} is over"), FILES_ARRIVE, async || {
        let acl = world.cluster_status(CLUSTER).await.acl.unwrap_or_default();
        if acl.password_rotation.as_deref() == Some(order) { Ok(()) } else { Err(acl) }
    })
    .await;
    eprintln!("rotation {order}: over after {:?}", begun.elapsed());
    let held = passwords(world).await;
    world.wait_directive(CLUSTER, "primaryauth", &held[SystemUser::Replication.name()], LINKS_RETURN).await;
    held
}

/// Cut every link between servers: they are only made again with passwords that are taken.
async fn cut_links(world: &World) {
    for server in world.cluster_servers(CLUSTER).await {
        let here = world.reach(&server.pod, names::SERVER_PORT).await;
        let anybody = Connection::open(&Target::tcp(here.host, here.port)).await.expect("should connect");
        for end in ["primary", "replica"] {
            anybody.raw(&["CLIENT", "KILL", "TYPE", end]).await.expect("should be allowed");
        }
    }
}

async fn assert_links_return(world: &World) {
    cut_links(world).await;
    let took = world.wait_whole(CLUSTER, LINKS_RETURN).await;
    eprintln!("links that were cut: back after {took:?}");
}

/// Each user with its password under a key of this ending.
fn logins<'a>(held: &'a BTreeMap<String, String>, ending: &str) -> Vec<(&'static str, &'a str)> {
    let of = |user: &SystemUser| held.get(&format!("{}{ending}", user.name())).map(String::as_str);
    SystemUser::ALL.iter().filter_map(|user| Some((user.name(), of(user)?))).collect()
}

#[tokio::test]
async fn system_passwords_rotate_without_a_restart() {
    world::run("rotation", async |world| {
        world.ready_cluster(CLUSTER, json!({"shards": 1, "replicas": 1})).await;
        let first = passwords(world).await;
        let before = (pods(world).await, processes(world, CLUSTER).await);

        let second = rotate(world, "once").await;
        assert_eq!(logins(&second, ".previous"), logins(&first, ""));
        assert!(SystemUser::ALL.iter().all(|user| second[user.name()] != first[user.name()]));
        let servers = world.cluster_servers(CLUSTER).await;
        let both = [logins(&second, ""), logins(&first, "")].concat();
        let nothing = std::future::ready(());
        let taken = Logins { good: &both, bad: &[] };
        taken.after("both passwords are taken", nothing, &servers, LINKS_RETURN).await;
        assert_links_return(world).await;

        let third = rotate(world, "twice").await;
        let servers = world.cluster_servers(CLUSTER).await;
        let both = [logins(&third, ""), logins(&second, "")].concat();
        let retired = Logins { good: &both, bad: &logins(&first, "") };
        retired.after("the first password is retired", std::future::ready(()), &servers, LINKS_RETURN).await;
        assert_links_return(world).await;

        world.wait_event(CLUSTER, "SystemPasswordsRotated: ").await;
        world.wait_cluster_ready(CLUSTER).await;
        assert_eq!((pods(world).await, processes(world, CLUSTER).await), before, "nothing was restarted");
    })
    .await;
}
