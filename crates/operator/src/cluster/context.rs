//! What the cluster controller works with: a client, the caches, and the few things it remembers between passes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use api::{ValkeyCertificateBinding, ValkeyCertificateBundle, ValkeyCluster, ValkeyNode};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kit::backoff::Backoff;
use kit::metrics::Metrics;
use kube::core::DeserializeGuard;
use kube::runtime::events::Recorder;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt as _};

use super::build::Identity;
use super::half_moved::HalfMoved;
use super::patience::Patience;
use super::promotions::Promotions;
use super::users::{Canonical, Remembered};
use super::zones::Zones;
use crate::heartbeats::Reception;
use crate::hooks::AfterCommand;
use crate::references::{Known, References};
use crate::settings::Settings;
use crate::watch::{Caller, Queue};

/// A cluster is looked at every few seconds: a Secret that was not asked for during this time is not named any more.
const KEEP_SECRETS_FOR: Duration = Duration::from_mins(5);

/// A cluster that may not be readable: one broken object must not stop the watch of all others.
pub(crate) type Guarded = DeserializeGuard<ValkeyCluster>;

/// Objects with our label, kept current by watches.
#[derive(Clone)]
pub(crate) struct Caches {
    pub(crate) clusters: Store<Guarded>,
    pub(crate) nodes: Store<DeserializeGuard<ValkeyNode>>,
    pub(crate) pods: Store<Pod>,
    pub(crate) services: Store<Service>,
    pub(crate) secrets: Store<Secret>,
    pub(crate) budgets: Store<PodDisruptionBudget>,
    pub(crate) bundles: Store<DeserializeGuard<ValkeyCertificateBundle>>,
    pub(crate) bindings: Store<DeserializeGuard<ValkeyCertificateBinding>>,
}

impl Caches {
    pub(crate) async fn wait_until_filled(&self) {
        // An error here means that the watch has ended with the program.
        let _ = futures::join!(
            self.clusters.wait_until_ready(),
            self.nodes.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.services.wait_until_ready(),
            self.secrets.wait_until_ready(),
            self.budgets.wait_until_ready(),
            self.bundles.wait_until_ready(),
            self.bindings.wait_until_ready(),
        );
    }
}

/// Shared by all reconciles of one scope.
pub(crate) struct Context {
    pub(super) client: Client,
    pub(super) caches: Caches,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) backoff: Backoff<ObjectRef<Guarded>>,
    pub(super) queue: Queue<Guarded>,
    pub(super) settings: Settings,
    pub(super) zones: Zones,
    references: Arc<References>,
    pub(super) reception: Arc<Reception>,
    pub(super) canonical: Canonical,
    pub(super) passwords: Remembered,
    pub(super) promotions: Promotions,
    pub(super) patience: Patience,
    pub(super) half_moved: HalfMoved,
    pub(super) call: Caller<Guarded>,
    pub(super) after_command: AfterCommand,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        recorder: Recorder,
        metrics: Metrics,
        (queue, call, references): (Queue<Guarded>, Caller<Guarded>, Arc<References>),
        settings: Settings,
        (after_command, reception): (AfterCommand, Arc<Reception>),
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            caches,
            recorder,
            metrics,
            backoff: Backoff::default(),
            queue,
            settings,
            zones: Zones::default(),
            references,
            reception,
            canonical: Canonical::default(),
            passwords: Remembered::default(),
            promotions: Promotions::default(),
            patience: Patience::default(),
            half_moved: HalfMoved::default(),
            call,
            after_command,
        })
    }

    /// What is known of a Secret that the spec of a cluster names. From now on the cluster is called when it changes.
    pub(super) async fn secret(&self, cluster: &Identity, name: &str) -> Known {
        let referrer = self.call.referrer(&cluster.namespace, &cluster.name, KEEP_SECRETS_FOR);
        self.references.read(&self.client, (&cluster.namespace, name), referrer).await
    }

    /// Forget what was remembered of clusters that are gone: a uid never comes back.
    pub(super) fn forget_the_gone(&self) {
        let there: HashSet<String> =
            self.caches.clusters.state().iter().filter_map(|one| one.uid()).collect();
        self.passwords.retain(&there);
        self.patience.retain(&there);
        self.half_moved.retain(&there);
    }
}
