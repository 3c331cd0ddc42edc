//! A machine of the cluster is lost and comes back.

use std::time::{Duration, Instant};

use e2e::witness::single::Witness;
use e2e::{operator, world};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use serde_json::json;

/// A machine that does not run the leader: what is tested is what the leader sees.
async fn other_machine(world: &e2e::World) -> String {
    let leader = operator::leader(&world.client).await.expect("somebody should lead");
    let pods = Api::<Pod>::namespaced(world.client.clone(), operator::NAMESPACE);
    let busy = pods.get(&leader).await.expect("should be there").spec.and_then(|spec| spec.node_name);
    let names: Vec<String> = world.local().nodes().iter().map(devcluster::Node::name).collect();
    names.into_iter().find(|name| Some(name) != busy.as_ref()).expect("there should be another machine")
}

#[tokio::test]
async fn a_lost_machine_shows_in_status_within_20_seconds_and_heals() {
    world::run("lost-machine", async |world| {
        let machine = other_machine(world).await;
        let spec = json!({
            "nodeSelector": {"kubernetes.io/hostname": machine},
            "persistence": {"size": "64Mi"},
            "config": {"appendonly": "yes", "appendfsync": "always"},
        });
        world.ready_node("stranded", spec).await;
        let witness = Witness::start(world.server("stranded").await, "machine").await;
        let node = world.local().node(&machine).expect("should know the machine");
        node.power_off().await.expect("should switch off");
        let begun = Instant::now();
        let message = world
            .wait_condition_for("stranded", "Ready", "False", "ServerUnreachable", Duration::from_secs(20))
            .await;
        eprintln!("noticed after {:?}: {message}", begun.elapsed());
        let status = world.status("stranded").await;
        assert_eq!((status.ready, status.observed_role), (false, None));

        let since = Timestamp::now();
        node.power_on().await.expect("should switch on");
        world
            .local()
            .wait_for_nodes(&[node], since, Duration::from_mins(1))
            .await
            .expect("the machine should come back");
        world.wait_ready("stranded").await;
        witness.verdict(&world.server("stranded").await).await.assert_nothing_lost();
    })
    .await;
}
