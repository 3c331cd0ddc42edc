//! Where servers run, and what they know of it.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names;
use e2e::clusters::{Server, everywhere};
use e2e::{World, world};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::json;

fn machine(server: &Server) -> String {
    server.pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).expect("should be on a machine")
}

async fn zone(world: &World, server: &Server) -> String {
    let node = Api::<Node>::all(world.client.clone()).get(&machine(server)).await.expect("should be there");
    node.labels().get("topology.kubernetes.io/zone").cloned().unwrap_or_default()
}

#[tokio::test]
async fn copies_are_apart_and_servers_know_their_zone_and_name() {
    world::run("placement", async |world| {
        world.ready_cluster("apart", json!({"shards": 3, "replicas": 1})).await;
        for shard in world.cluster_pods("apart").await {
            let machines: BTreeSet<_> =
                shard.iter().map(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone())).collect();
            assert_eq!(machines.len(), shard.len(), "copies of one shard share a machine: {machines:?}");
        }
        let servers = world.cluster_servers("apart").await;
        for server in &servers {
            let zone = zone(world, server).await;
            assert!(!zone.is_empty(), "machines of this cluster should be in zones");
            everywhere(
                &format!("{} knows its zone", server.node),
                std::slice::from_ref(server),
                Duration::from_secs(20),
                async |server| {
                    let values = server.open().await?.config_get(&["availability-zone"]).await?;
                    let is = values.get("availability-zone").cloned().unwrap_or_default();
                    Ok(if is == zone { Ok(()) } else { Err(is) })
                },
            )
            .await;
        }
        check_names(world, &servers).await;
    })
    .await;
}

/// Every server is known to every other one by the name of its Service.
async fn check_names(world: &World, servers: &[Server]) {
    for server in servers {
        let connection = server.open().await.expect("should answer");
        let own = connection.config_get(&["cluster-announce-hostname"]).await.expect("should answer");
        let host = names::announced_host(&server.node, &world.namespace);
        assert_eq!(own["cluster-announce-hostname"], host);
        let table = connection.cluster_nodes().await.expect("should answer");
        let known: BTreeSet<String> =
            table.nodes.iter().filter_map(|node| node.address.hostname.clone()).collect();
        let all: BTreeSet<String> =
            servers.iter().map(|one| names::announced_host(&one.node, &world.namespace)).collect();
        assert_eq!(known, all, "names that {} knows", server.node);
    }
}
