//! What the node controller works with: a client, the caches, and the few things it remembers between passes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// A node that may not be readable: one broken object must not stop the watch of all others.
pub(super) type Guarded = DeserializeGuard<ValkeyNode>;

/// Objects with our label, kept current by watches.
#[derive(Clone)]
pub(super) struct Caches {
    pub(super) nodes: Store<Guarded>,
    pub(super) stateful_sets: Store<StatefulSet>,
    pub(super) deployments: Store<Deployment>,
    pub(super) pods: Store<Pod>,
    pub(super) services: Store<Service>,
    pub(super) config_maps: Store<ConfigMap>,
    pub(super) claims: Store<PersistentVolumeClaim>,
}

/// Nodes with news that no worker has looked at yet.
#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Mutex<HashSet<ObjectRef<Guarded>>>>);

impl Queue {
    /// There is news of a node; whether it was not waiting already.
    pub(super) fn enter(&self, node: ObjectRef<Guarded>) -> bool {
        self.waiting().insert(node)
    }

    /// A worker looks at a node: news from now on is news again.
    pub(super) fn leave(&self, node: &ObjectRef<Guarded>) {
        self.waiting().remove(node);
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting().len()
    }

    fn waiting(&self) -> MutexGuard<'_, HashSet<ObjectRef<Guarded>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shared by all reconciles of one scope.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) caches: Caches,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) backoff: Backoff<ObjectRef<Guarded>>,
    pub(super) secrets: Secrets,
    pub(super) queue: Queue,
}

impl Context {
    pub(super) fn new(client: Client, caches: Caches, recorder: Recorder, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            client,
            caches,
            recorder,
            metrics,
            backoff: Backoff::default(),
            secrets: Secrets::default(),
            queue: Queue::default(),
        })
    }
}
