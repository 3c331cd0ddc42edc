//! Pods stand still and die, and nodes lose each other.

use devcluster::cache;
use devcluster::command::run;
use devcluster::faults::{ContainerGroup, Fault, Freeze, Partition, Side};
use devcluster::images::{ValkeyVersion, host_programs};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::{Place, eventually, object};

fn server(node: u8) -> Pod {
    object(json!({
        "metadata": { "name": format!("server-{node}") },
        "spec": {
            "nodeName": format!("node-{node}"),
            "terminationGracePeriodSeconds": 0,
            "securityContext": { "runAsUser": 999, "runAsGroup": 999 },
            "containers": [{
                "name": "server",
                "image": "docker.io/valkey/valkey:9.1",
                "args": ["--protected-mode", "no", "--save", ""],
            }],
        },
    }))
}

fn address(pod: &Pod) -> String {
    pod.status.clone().and_then(|status| status.pod_ip).expect("a running pod has an address")
}

/// Whether the server answers the client, who stands in the network of `from`, or beside the nodes.
fn answers(cli: &str, from: Option<&Pod>, to: &Pod) -> bool {
    let host = address(to);
    let mut command = vec!["timeout", "1", cli, "-h", &host, "ping"];
    let group = from.map(|pod| ContainerGroup::of(pod, "server").expect("a group"));
    let pid = group.map(|group| group.main_process().expect("a process").pid.to_string());
    if let Some(pid) = &pid {
        command.splice(0..0, ["nsenter", "--net", "--target", pid]);
    }
    run(command[0], &command[1..]).is_ok_and(|answer| answer.trim() == "PONG")
}

#[tokio::test]
async fn containers_freeze_and_die_and_nodes_lose_each_other() {
    let place = Place::new("faults").await;
    let pods: Api<Pod> = Api::namespaced(place.client.clone(), &place.namespace);
    let running = async |number: u8| {
        eventually("a running server", async || {
            let pod = pods.get(&format!("server-{number}")).await.expect("the pod is there");
            let phase = pod.status.as_ref()?.phase.as_deref();
            (phase == Some("Running") && ContainerGroup::of(&pod, "server").is_ok()).then_some(pod)
        })
        .await
    };
    for number in [1, 2] {
        pods.create(&PostParams::default(), &server(number)).await.expect("the pod is made");
    }
    let (one, two) = (running(1).await, running(2).await);
    let programs = host_programs(&cache::folder().expect("the cache"), ValkeyVersion::V9_1);
    let cli = programs.expect("the client is unpacked").cli().display().to_string();
    let faults = place.cluster.faults().expect("the notes");
    let side = |number| Side::from(&place.cluster.layout().node(number));
    eventually("the first answer", async || answers(&cli, Some(&one), &two).then_some(())).await;

    let printed =
        place.cluster.run_in_pod(&place.namespace, "server-1", "server", &["valkey-cli", "ping"]).await;
    assert_eq!(printed.expect("the command runs").trim(), "PONG");
    let mut log = place.cluster.follow_log(&place.namespace, "server-1", "server").expect("the log is there");
    let line = tokio::time::timeout(super::PATIENCE, log.next()).await.expect("a line in time");
    assert!(line.expect("the log can be read").is_some_and(|line| line.contains("Valkey")));

    let group = ContainerGroup::of(&two, "server").expect("the container has a group");
    let frozen = faults.begin(Fault::Freeze(Freeze { group: group.folder.clone() })).expect("it freezes");
    assert!(!answers(&cli, None, &two) && answers(&cli, None, &one));
    frozen.heal().expect("it thaws");
    assert!(answers(&cli, None, &two));

    let process = group.main_process().expect("the server runs");
    let stopped = faults.begin(Fault::Stop(process.clone())).expect("it stops");
    assert!(!answers(&cli, None, &two));
    drop(stopped);
    assert!(answers(&cli, None, &two));

    let partition = Partition::both_ways(&side(1), &[side(2)]);
    let cut = faults.begin(Fault::Partition(partition.clone())).expect("the network breaks");
    assert!(!answers(&cli, Some(&one), &two) && !answers(&cli, Some(&two), &one));
    assert!(answers(&cli, None, &one) && answers(&cli, None, &two), "others reach both");
    cut.heal().expect("the network is mended");
    let ports = faults.begin(Fault::Partition(partition.on_ports(&[6379]))).expect("the network breaks");
    assert!(!answers(&cli, Some(&one), &two));
    std::mem::forget(ports);
    assert_eq!(faults.heal_all().expect("the network is mended"), 1);
    assert!(answers(&cli, Some(&one), &two));

    process.kill().expect("the process is killed");
    eventually("the restart", async || {
        let pod = pods.get("server-2").await.expect("the pod is there");
        let restarted = pod.status?.container_statuses?.first()?.restart_count > 0;
        (restarted && answers(&cli, None, &two)).then_some(())
    })
    .await;
    place.remove().await;
}
