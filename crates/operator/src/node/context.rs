//! What the node controller works with: a client, the caches, and the few things it remembers between passes.

use std::sync::Arc;

use api::ValkeyNode;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use kit::backoff::Backoff;
use kit::metrics::Metrics;
use kube::Client;
use kube::core::DeserializeGuard;
use kube::runtime::events::Recorder;
use kube::runtime::reflector::{ObjectRef, Store};

use super::access::Secrets;
use crate::heartbeats::Reception;
use crate::watch::Queue;

/// A node that may not be readable: one broken object must not stop the watch of all others.
pub(crate) type Guarded = DeserializeGuard<ValkeyNode>;

/// Objects with our label, kept current by watches.
#[derive(Clone)]
pub(crate) struct Caches {
    pub(crate) nodes: Store<Guarded>,
    pub(crate) stateful_sets: Store<StatefulSet>,
    pub(crate) deployments: Store<Deployment>,
    pub(crate) pods: Store<Pod>,
    pub(crate) services: Store<Service>,
    pub(crate) config_maps: Store<ConfigMap>,
    pub(crate) claims: Store<PersistentVolumeClaim>,
}

/// Shared by all reconciles of one scope.
pub(crate) struct Context {
    pub(super) client: Client,
    pub(super) caches: Caches,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) backoff: Backoff<ObjectRef<Guarded>>,
    pub(super) secrets: Secrets,
    pub(super) queue: Queue<Guarded>,
    pub(super) reception: Arc<Reception>,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        recorder: Recorder,
        metrics: Metrics,
        (queue, reception): (Queue<Guarded>, Arc<Reception>),
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            caches,
            recorder,
            metrics,
            backoff: Backoff::default(),
            secrets: Secrets::default(),
            queue,
            reception,
        })
    }
}
