//! Gives a pod of a real cluster its volume. Needs root on the machine of the nodes, and `KUBECONFIG`.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use devcluster::storage::{self, Disks};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Config, ResourceExt};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);

async fn client() -> Client {
    let mut config = Config::infer().await.expect("KUBECONFIG names a cluster");
    config.proxy_url = None;
    Client::try_from(config).expect("the configuration is usable")
}

/// Asks again and again until there is an answer.
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

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("a valid object")
}

fn claim() -> PersistentVolumeClaim {
    object(json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "64Mi" } } },
    }))
}

/// Writes as an ordinary user, as every pod with a restricted security context does.
fn pod() -> Pod {
    object(json!({
        "metadata": { "name": "writer" },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": { "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999 },
            "containers": [{
                "name": "writer",
                "image": "docker.io/valkey/valkey:9.1",
                "command": ["sh", "-c", "echo hello > /data/file && exec sleep 3600"],
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
        },
    }))
}

struct Cluster {
    claims: Api<PersistentVolumeClaim>,
    volumes: Api<PersistentVolume>,
    pods: Api<Pod>,
    disks: Disks,
}

impl Cluster {
    /// Makes the claim and the pod, and waits for the volume.
    async fn provision(&self) -> String {
        self.claims.create(&PostParams::default(), &claim()).await.expect("the claim is made");
        self.pods.create(&PostParams::default(), &pod()).await.expect("the pod is made");
        let volume = eventually("the volume", async || {
            self.claims.get("data").await.expect("the claim is there").spec?.volume_name
        })
        .await;
        let file = self.disks.mount_point(&volume).join("file");
        let content = eventually("the pod's file", async || std::fs::read_to_string(&file).ok()).await;
        assert_eq!(content, "hello\n");
        volume
    }

    async fn give_back(&self) {
        self.pods.delete("writer", &DeleteParams::default()).await.expect("the pod goes");
        self.claims.delete("data", &DeleteParams::default()).await.expect("the claim goes");
    }

    async fn grow(&self) {
        let larger = json!({ "spec": { "resources": { "requests": { "storage": "256Mi" } } } });
        let parameters = PatchParams::default();
        self.claims.patch("data", &parameters, &Patch::Merge(larger)).await.expect("the claim may grow");
        let status = eventually("the larger capacity", async || {
            let status = self.claims.get("data").await.expect("the claim is there").status?;
            (status.capacity.as_ref()?.get("storage")?.0 == "256Mi").then_some(status)
        })
        .await;
        assert_eq!(status.conditions.unwrap_or_default(), []);
        assert_eq!(status.allocated_resource_statuses.unwrap_or_default().len(), 0);
    }

    async fn gone(&self, volume: &str) {
        eventually("the end of the volume", async || {
            self.volumes.get_opt(volume).await.expect("an answer").is_none().then_some(())
        })
        .await;
    }
}

fn size(path: &Path) -> u64 {
    let path = path.display().to_string();
    let output = devcluster::command::run("df", ["-B1", "--output=size", &path]);
    let text = output.expect("df runs");
    text.lines().last().and_then(|line| line.trim().parse().ok()).expect("df tells a size")
}

#[tokio::test]
#[ignore = "needs root and a cluster"]
async fn a_claim_gets_a_volume_that_grows_and_goes_or_is_retained() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let client = client().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (running, directory) = (client.clone(), folder.path().to_owned());
    let provisioner =
        tokio::spawn(async move { storage::run(running, &directory, async { drop(stopped.await) }).await });

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = object(json!({ "metadata": { "generateName": "storage-test-" } }));
    let namespace =
        namespaces.create(&PostParams::default(), &namespace).await.expect("the namespace is made");
    let namespace = namespace.name_any();
    let cluster = Cluster {
        claims: Api::namespaced(client.clone(), &namespace),
        volumes: Api::all(client.clone()),
        pods: Api::namespaced(client, &namespace),
        disks: Disks::open(folder.path()).expect("the folder"),
    };

    let volume = cluster.provision().await;
    let mount = cluster.disks.mount_point(&volume);
    assert!(size(&mount) <= 64 << 20);
    cluster.grow().await;
    assert!((200 << 20..=256 << 20).contains(&size(&mount)), "{}", size(&mount));
    cluster.give_back().await;
    cluster.gone(&volume).await;
    assert_eq!(cluster.disks.list().expect("the folder can be read"), []);

    let gone = eventually("the claim's end", async || {
        cluster.claims.get_opt("data").await.expect("an answer").is_none().then_some(())
    });
    gone.await;
    let volume = cluster.provision().await;
    let retain = json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } });
    let parameters = PatchParams::default();
    cluster.volumes.patch(&volume, &parameters, &Patch::Merge(retain)).await.expect("the volume is to stay");
    cluster.give_back().await;
    eventually("the volume to be released", async || {
        let status = cluster.volumes.get(&volume).await.expect("the volume stays").status?;
        (status.phase? == "Released").then_some(())
    })
    .await;
    cluster.volumes.delete(&volume, &DeleteParams::default()).await.expect("the volume is deleted");
    cluster.gone(&volume).await;
    let file = cluster.disks.mount_point(&volume).join("file");
    assert_eq!(std::fs::read_to_string(file).expect("the data outlives the volume"), "hello\n");

    stop.send(()).expect("the provisioner runs");
    provisioner.await.expect("no panic").expect("it ends in order");
    namespaces.delete(&namespace, &DeleteParams::default()).await.expect("the namespace goes");
    storage::cleanup(folder.path()).expect("everything is unmounted");
}
