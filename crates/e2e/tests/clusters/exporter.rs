//! The exporter beside each server, and its absence.

use std::time::Duration;

use api::names::{EXPORTER_CONTAINER, EXPORTER_PORT};
use e2e::access::Address;
use e2e::{wait, world};
use k8s_openapi::api::core::v1::{Pod, Secret};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What the exporter answers.
async fn metrics(address: &Address) -> Result<String, String> {
    let asked = async {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(Duration::from_secs(5), asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

fn containers(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.as_ref().expect("should have a spec");
    spec.containers.iter().map(|one| one.name.clone()).collect()
}

#[tokio::test]
async fn every_server_has_an_exporter_that_may_look() {
    world::run("exporter", async |world| {
        world.ready_cluster("seen", json!({"shards": 2, "replicas": 1})).await;
        for server in world.cluster_servers("seen").await {
            assert!(containers(&server.pod).contains(&EXPORTER_CONTAINER.to_owned()), "{}", server.node);
            let address = world.reach(&server.pod, EXPORTER_PORT).await;
            wait::until(&format!("metrics of {}", server.node), Duration::from_secs(20), async || {
                let text = metrics(&address).await?;
                let up = text.lines().any(|line| line == "redis_up 1");
                let whole = text.lines().any(|line| line == "redis_cluster_slots_assigned 16384");
                if up && whole { Ok(()) } else { Err(text.lines().take(3).collect::<String>()) }
            })
            .await;
        }
    })
    .await;
}

#[tokio::test]
async fn without_the_exporter_there_is_no_container_and_no_user() {
    world::run("no-exporter", async |world| {
        world
            .ready_cluster("unseen", json!({"shards": 1, "replicas": 1, "exporter": {"enabled": false}}))
            .await;
        for server in world.cluster_servers("unseen").await {
            assert_eq!(containers(&server.pod), ["valkey"]);
            let users = server.open().await.expect("should answer").acl_list().await.expect("should list");
            assert!(users.get("_exporter").is_none(), "{}", server.node);
            assert!(users.get("_operator").is_some(), "{}", server.node);
        }
        let secret = world.get::<Secret>("internal-unseen-system-passwords").await;
        let keys: Vec<String> = secret.data.unwrap_or_default().into_keys().collect();
        assert_eq!(keys, ["_agent", "_operator", "_replication"]);
    })
    .await;
}
