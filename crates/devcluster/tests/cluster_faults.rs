//! Breaks pods and nodes of a real cluster. Needs root on the machine of the nodes, and `KUBECONFIG`.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use devcluster::command::run;
use devcluster::faults::{ContainerGroup, Fault, Faults, Freeze, Partition, Side};
use devcluster::images::{ValkeyVersion, host_programs};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Config, ResourceExt};
use serde_json::json;

const PATIENCE: Duration = Duration::from_mins(1);

async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let waiting = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.map_err(|_| what).expect("it happens in time")
}

fn server(node: u8) -> Pod {
    serde_json::from_value(json!({
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
    .expect("a valid pod")
}

fn address(pod: &Pod) -> String {
    pod.status.clone().and_then(|status| status.pod_ip).expect("a running pod has an address")
}

/// The node's side of the network: its own address and those of its pods.
fn side(node: u8) -> Side {
    let namespace = PathBuf::from(format!("/run/netns/vkdev-{node}"));
    Side { namespace, addresses: vec![format!("10.89.0.{}", 10 + node), format!("10.244.{node}.0/24")] }
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
#[ignore = "needs root and a cluster"]
async fn containers_freeze_and_die_and_nodes_lose_each_other() {
    let mut config = Config::infer().await.expect("KUBECONFIG names a cluster");
    config.proxy_url = None;
    let client = Client::try_from(config).expect("the configuration is usable");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "generateName": "faults-test-" } }));
    let namespace = namespaces.create(&PostParams::default(), &namespace.expect("a namespace")).await;
    let namespace = namespace.expect("the namespace is made").name_any();
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
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
    let home = PathBuf::from(std::env::var_os("HOME").expect("HOME is set"));
    let programs = host_programs(&home.join(".cache/valkey-operator"), ValkeyVersion::V9_1);
    let cli = programs.expect("the client is unpacked").cli().display().to_string();
    let notes = tempfile::tempdir().expect("a temporary directory");
    let faults = Faults::open(notes.path()).expect("the folder is made");
    eventually("the first answer", async || answers(&cli, Some(&one), &two).then_some(())).await;

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
    namespaces.delete(&namespace, &DeleteParams::default()).await.expect("the namespace goes");
}
