//! A claim gets its volume from the provisioner that runs with the cluster.

use std::path::Path;

use devcluster::faults::{Fault, Fill};
use devcluster::storage::Disks;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{Place, eventually, object};

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

struct Storage {
    claims: Api<PersistentVolumeClaim>,
    volumes: Api<PersistentVolume>,
    pods: Api<Pod>,
    disks: Disks,
}

impl Storage {
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
async fn a_claim_gets_a_volume_that_fills_grows_and_goes_or_is_retained() {
    let place = Place::new("storage").await;
    let storage = Storage {
        claims: Api::namespaced(place.client.clone(), &place.namespace),
        volumes: Api::all(place.client.clone()),
        pods: Api::namespaced(place.client.clone(), &place.namespace),
        disks: place.cluster.disks().expect("the disks"),
    };
    let is_there = |volume: &str| {
        let disks = storage.disks.list().expect("the folder can be read");
        disks.iter().any(|disk| disk.volume == volume)
    };

    let volume = storage.provision().await;
    let mount = storage.disks.mount_point(&volume);
    assert!(size(&mount) <= 64 << 20);
    let faults = place.cluster.faults().expect("the notes");
    let full = faults.begin(Fault::Fill(Fill { mount: mount.clone() })).expect("the disk is filled");
    std::fs::write(mount.join("more"), vec![1; 1 << 16]).expect_err("nothing fits");
    storage.grow().await;
    assert!((200 << 20..=256 << 20).contains(&size(&mount)), "{}", size(&mount));
    std::fs::write(mount.join("more"), vec![1; 1 << 16]).expect("there is space again");
    full.heal().expect("the disk is freed");
    storage.give_back().await;
    storage.gone(&volume).await;
    assert!(!is_there(&volume));

    eventually("the claim's end", async || {
        storage.claims.get_opt("data").await.expect("an answer").is_none().then_some(())
    })
    .await;
    let volume = storage.provision().await;
    let retain = json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } });
    let parameters = PatchParams::default();
    storage.volumes.patch(&volume, &parameters, &Patch::Merge(retain)).await.expect("the volume is to stay");
    storage.give_back().await;
    eventually("the volume to be released", async || {
        let status = storage.volumes.get(&volume).await.expect("the volume stays").status?;
        (status.phase? == "Released").then_some(())
    })
    .await;
    storage.volumes.delete(&volume, &DeleteParams::default()).await.expect("the volume is deleted");
    storage.gone(&volume).await;
    let file = storage.disks.mount_point(&volume).join("file");
    assert_eq!(std::fs::read_to_string(file).expect("the data outlives the volume"), "hello\n");
    storage.disks.remove(&volume).expect("the disk is removed by hand");
    place.remove().await;
}
