//! Carries out the steps of a plan. Each may be repeated: a step that was cut off is simply taken again.

use std::fmt::Debug;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use snafu::ResultExt;

use super::disks::{Disk, Disks};
use super::error::{ApiSnafu, CutOffSnafu, StorageError};
use super::objects::{self, FINALIZER, STORAGE_CLASS};
use super::plan::{Action, Claim, ClaimName, Size};

/// Our name as an author of objects.
const MANAGER: &str = "devcluster";

/// The cluster and the disks that steps work on.
pub(super) struct Steps {
    client: Client,
    disks: Disks,
}

impl Steps {
    pub(super) fn new(client: Client, disks: Disks) -> Self {
        Self { client, disks }
    }

    /// Makes the default class, or brings it back to what it should be.
    pub(super) async fn ensure_storage_class(&self) -> Result<(), StorageError> {
        let class = objects::storage_class();
        let parameters = PatchParams::apply(MANAGER).force();
        let api: Api<StorageClass> = Api::all(self.client.clone());
        let object = format!("storage class {STORAGE_CLASS}");
        api.patch(STORAGE_CLASS, &parameters, &Patch::Apply(&class))
            .await
            .context(ApiSnafu { action: "apply", object })?;
        Ok(())
    }

    /// The disks there are.
    pub(super) async fn disks(&self) -> Result<Vec<Disk>, StorageError> {
        self.on_disks(Disks::list).await
    }

    /// Takes one step.
    pub(super) async fn take(&self, action: Action) -> Result<(), StorageError> {
        match action {
            Action::Mount { volume } => self.on_disks(move |disks| disks.mount(&volume)).await,
            Action::Delete { volume } => {
                let disk = volume.clone();
                self.on_disks(move |disks| disks.remove(&disk)).await?;
                self.let_go(&volume).await
            }
            Action::LetGo { volume } => {
                let disk = volume.clone();
                self.on_disks(move |disks| disks.keep(&disk)).await?;
                self.let_go(&volume).await
            }
            Action::RemoveOrphan { volume } => self.remove_orphan(volume).await,
            Action::Provision { claim, node } => self.provision(&claim, &node).await,
            Action::Grow { claim, volume, size } => self.grow(&claim, &volume, size).await,
            Action::FinishGrowth { claim, size } => {
                self.patch_claim_status(&claim, objects::grown_claim(&size)).await
            }
        }
    }

    async fn provision(&self, claim: &Claim, node: &str) -> Result<(), StorageError> {
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let object = || format!("storage class {}", claim.class);
        let class = classes.get(&claim.class).await;
        let class = class.with_context(|_| ApiSnafu { action: "read", object: object() })?;

        let (name, bytes) = (claim.name.volume(), claim.requested.bytes);
        let disk = name.clone();
        self.on_disks(move |disks| disks.create(&disk, bytes)).await?;
        let volume = objects::new_volume(claim, &class, node, &self.disks.mount_point(&name));
        match self.volumes().create(&PostParams::default(), &volume).await {
            // Made by an attempt that was cut off, or our view is a moment old.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            result => result.map(drop).context(ApiSnafu { action: "create", object: volume_object(&name) }),
        }
    }

    async fn grow(&self, claim: &ClaimName, volume: &str, size: Size) -> Result<(), StorageError> {
        self.patch_claim_status(claim, objects::growing_claim(&size, Timestamp::now())).await?;
        let (disk, bytes) = (volume.to_owned(), size.bytes);
        self.on_disks(move |disks| disks.grow(&disk, bytes)).await?;
        let patched = patch(&self.volumes(), volume, &objects::grown_volume(&size)).await;
        patched.context(ApiSnafu { action: "update", object: volume_object(volume) })?;
        self.patch_claim_status(claim, objects::grown_claim(&size)).await
    }

    /// The list of volumes may be a moment old, and a disk cannot be brought back: ask once more.
    async fn remove_orphan(&self, volume: String) -> Result<(), StorageError> {
        let found = self.volumes().get_opt(&volume).await;
        let found = found.with_context(|_| ApiSnafu { action: "read", object: volume_object(&volume) })?;
        match found {
            Some(_) => Ok(()),
            None => self.on_disks(move |disks| disks.remove(&volume)).await,
        }
    }

    /// Deletes a volume's object and takes our hand off it.
    async fn let_go(&self, volume: &str) -> Result<(), StorageError> {
        let volumes = self.volumes();
        let failed = |action| ApiSnafu { action, object: volume_object(volume) };
        let deleted = gone_is_fine(volumes.delete(volume, &DeleteParams::default()).await);
        deleted.context(failed("delete"))?;
        loop {
            let found = volumes.get_opt(volume).await.context(failed("read"))?;
            let Some(object) = found else { return Ok(()) };
            let others: Vec<&String> = object.finalizers().iter().filter(|name| *name != FINALIZER).collect();
            // Kubernetes takes its own hand off at the same time, and nobody may put it back.
            let version = object.resource_version();
            let change = json!({ "metadata": { "finalizers": others, "resourceVersion": version } });
            match patch(&volumes, volume, &change).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                result => return gone_is_fine(result).context(failed("release")),
            }
        }
    }

    async fn patch_claim_status(&self, claim: &ClaimName, status: Value) -> Result<(), StorageError> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &claim.namespace);
        let object = format!("the status of claim {}/{}", claim.namespace, claim.name);
        api.patch_status(&claim.name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .context(ApiSnafu { action: "update", object })?;
        Ok(())
    }

    fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Disks are worked on by other programs: wait for those elsewhere than where the watches run.
    async fn on_disks<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Disks) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let disks = self.disks.clone();
        tokio::task::spawn_blocking(move || work(&disks)).await.context(CutOffSnafu)?
    }
}

async fn patch<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    name: &str,
    change: &Value,
) -> Result<(), kube::Error> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.map(drop)
}

fn gone_is_fine<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        result => result.map(drop),
    }
}

fn volume_object(name: &str) -> String {
    format!("volume {name}")
}
