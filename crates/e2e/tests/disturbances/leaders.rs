//! One replica of the operator acts; another takes over at once when it stops, and in time when it hangs.

use std::time::{Duration, Instant};

use devcluster::faults::{ContainerGroup, Fault, Freeze};
use e2e::changes::ask_for_restart;
use e2e::objects::uid;
use e2e::{operator, wait, world};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::json;

#[tokio::test]
async fn the_leader_hands_over_while_a_node_is_created() {
    world::run("handover", async |world| {
        let before = operator::leader(&world.client).await.expect("somebody should lead");
        let pods = Api::<Pod>::namespaced(world.client.clone(), operator::NAMESPACE);
        world.node("between", json!({})).await;
        pods.delete(&before, &DeleteParams::default()).await.expect("should delete the leader");
        let begun = Instant::now();
        let after = operator::wait_for_other_leader(&world.client, &before, Duration::from_secs(10)).await;
        eprintln!("{after} took over from {before} after {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(5), "a graceful stop hands over at once");
        world.wait_ready("between").await;
    })
    .await;
}

#[tokio::test]
async fn a_hanging_leader_is_replaced_in_time() {
    world::run("hanging", async |world| {
        let before = operator::leader(&world.client).await.expect("somebody should lead");
        let pods = Api::<Pod>::namespaced(world.client.clone(), operator::NAMESPACE);
        let pod = pods.get(&before).await.expect("should be there");
        let group = ContainerGroup::of(&pod, "operator").expect("should find the container");
        let faults = world.local().faults().expect("should be able to break things");
        let freeze = faults.begin(Fault::Freeze(Freeze { group: group.folder })).expect("should freeze");
        let begun = Instant::now();
        world.node("meanwhile", json!({})).await;
        let after = operator::wait_for_other_leader(&world.client, &before, Duration::from_secs(20)).await;
        let took = begun.elapsed();
        eprintln!("{after} took over from the hanging {before} after {took:?}");
        assert!(took <= Duration::from_secs(15), "{took:?}");
        world.wait_ready("meanwhile").await;
        freeze.heal().expect("should thaw");
        // The old one notices that it does not lead any more, and never leads beside the new one.
        wait::always("the new leader leads on", Duration::from_secs(15), async || {
            let now = operator::leader(&world.client).await;
            if now.as_ref() == Some(&after) { Ok(()) } else { Err(now) }
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn pods_of_an_operator_without_agents_get_theirs_with_their_next_restart() {
    world::run("without-agents", async |world| {
        operator::with_environment(&world.client, "SIDECARS", "false", async {
            world.ready_cluster("older", json!({"shards": 1, "replicas": 1})).await;
        })
        .await;
        let pods = async || -> Vec<Pod> { world.cluster_pods("older").await.into_iter().flatten().collect() };
        let has_agent = |pod: &Pod| {
            let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
            containers.map(|container| container.name.as_str()).any(|name| name == "valkey-sidecar")
        };
        let before = pods().await;
        assert!(!before.iter().any(has_agent));
        let words =
            world.wait_cluster_condition("older", "SidecarsConnected", "False", "SidecarsMissing").await;
        assert!(words.contains("older-0-0, older-0-1"), "{words}");
        world.wait_cluster_ready("older").await;
        assert_eq!(
            pods().await.iter().map(uid).collect::<Vec<_>>(),
            before.iter().map(uid).collect::<Vec<_>>()
        );

        ask_for_restart(world, "older").await;
        world.wait_cluster_condition("older", "SidecarsConnected", "True", "SidecarsHeard").await;
        world.wait_cluster_ready("older").await;
        assert!(pods().await.iter().all(has_agent));
    })
    .await;
}

#[tokio::test]
async fn a_new_operator_restarts_nothing() {
    world::run("upgrade", async |world| {
        for (name, workload_type) in [("set", "StatefulSet"), ("dep", "Deployment"), ("bare", "Pod")] {
            world.node(name, json!({"workloadType": workload_type})).await;
        }
        let mut pods = Vec::new();
        for name in ["set", "dep", "bare"] {
            world.wait_ready(name).await;
            pods.push(uid(&world.pod_of(name).await));
        }
        world.ready_cluster("many", json!({"shards": 2, "replicas": 1})).await;
        let of_cluster =
            async || -> Vec<String> { world.cluster_pods("many").await.iter().flatten().map(uid).collect() };
        let of_cluster_before = of_cluster().await;
        let version = world.get::<StatefulSet>("valkey-set").await.resource_version();
        operator::scale(&world.client, 0).await;
        operator::scale(&world.client, 2).await;
        wait::until("somebody leads", Duration::from_secs(30), async || {
            operator::leader(&world.client).await.ok_or("nobody")
        })
        .await;
        tokio::time::sleep(Duration::from_secs(15)).await;
        for (name, before) in ["set", "dep", "bare"].into_iter().zip(&pods) {
            assert_eq!(&uid(&world.pod_of(name).await), before, "the pod of {name} was replaced");
        }
        assert_eq!(world.get::<StatefulSet>("valkey-set").await.resource_version(), version);
        assert_eq!(of_cluster().await, of_cluster_before);
    })
    .await;
}
