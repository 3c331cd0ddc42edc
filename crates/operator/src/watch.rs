//! Keeping caches current and telling controllers of news. Only objects with our label are stored, and what nobody reads
//! of them (managed fields) is dropped before.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::keys;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kit::metrics::Metrics;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::references::Referrer;

/// Objects that were added, changed or deleted.
pub(crate) type Changes<K> = BoxStream<'static, Result<K, watcher::Error>>;

/// Kinds that live in namespaces.
pub(crate) trait Watchable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// One namespace, or all.
pub(crate) struct Scope {
    pub(crate) client: Client,
    pub(crate) namespace: Option<String>,
}

impl Scope {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// Objects that carry our label.
    pub(crate) fn labelled<K: Watchable>(&self) -> (Store<K>, Changes<K>) {
        let ours =
            watcher::Config::default().labels(&format!("{}={}", keys::MANAGED_BY, keys::MANAGED_BY_VALUE));
        reflect(watcher(self.api::<K>(), ours))
    }

    /// Objects of somebody else's, told of and not kept.
    pub(crate) fn selected<K: Watchable>(&self, fields: &str) -> Changes<K> {
        let these = watcher::Config::default().fields(fields);
        watcher(self.api::<K>(), these).default_backoff().touched_objects().boxed()
    }

    /// Every object of one of our kinds that live outside of namespaces.
    pub(crate) fn outside<K>(&self) -> (Store<DeserializeGuard<K>>, Changes<DeserializeGuard<K>>)
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let all: Api<DeserializeGuard<K>> = Api::all(self.client.clone());
        reflect(watcher(all, watcher::Config::default()))
    }

    /// Every object of one of our kinds. One that cannot be read must not stop the watch of all others.
    pub(crate) fn guarded<K: Watchable>(&self) -> (Store<DeserializeGuard<K>>, Changes<DeserializeGuard<K>>) {
        reflect(watcher(self.api::<DeserializeGuard<K>>(), watcher::Config::default()))
    }
}

fn reflect<K, S>(events: S) -> (Store<K>, Changes<K>)
where
    K: Resource + Clone + Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
    S: Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static,
{
    let (store, writer) = reflector::store();
    let changes = events
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .touched_objects()
        .boxed();
    (store, changes)
}

/// A channel as a stream.
pub(crate) fn received<T>(receiver: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> + Send
where
    T: Send + 'static,
{
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) })
}

/// Objects with news that no worker has looked at yet.
pub(crate) struct Queue<K: Resource<DynamicType = ()>>(Arc<Mutex<HashSet<ObjectRef<K>>>>);

impl<K: Resource<DynamicType = ()>> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Resource<DynamicType = ()>> Default for Queue<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Resource<DynamicType = ()>> Queue<K> {
    /// There is news of an object; whether it was not waiting already.
    pub(crate) fn enter(&self, object: ObjectRef<K>) -> bool {
        self.waiting().insert(object)
    }

    /// A worker looks at an object: news from now on is news again.
    pub(crate) fn leave(&self, object: &ObjectRef<K>) {
        self.waiting().remove(object);
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
    }

    fn waiting(&self) -> MutexGuard<'_, HashSet<ObjectRef<K>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a controller for an object. One that waits already is not called again, so that the channel never holds more
/// than one call per object.
pub(crate) struct Caller<K: Resource<DynamicType = ()>> {
    queue: Queue<K>,
    metrics: Metrics,
    kind: &'static str,
    calls: mpsc::UnboundedSender<ObjectRef<K>>,
}

impl<K: Resource<DynamicType = ()>> Clone for Caller<K> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            metrics: self.metrics.clone(),
            kind: self.kind,
            calls: self.calls.clone(),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Caller<K> {
    /// This controller's object as somebody who refers to a Secret.
    pub(crate) fn referrer(&self, namespace: &str, name: &str, keep: Duration) -> Referrer
    where
        K: 'static,
    {
        let (caller, object) = (self.clone(), object(namespace, name));
        Referrer {
            who: (self.kind, namespace.to_owned(), name.to_owned()),
            keep,
            call: Arc::new(move || caller.call_for(object.clone())),
        }
    }

    pub(crate) fn new(
        kind: &'static str,
        metrics: Metrics,
    ) -> (Self, Queue<K>, mpsc::UnboundedReceiver<ObjectRef<K>>) {
        let (calls, called) = mpsc::unbounded_channel();
        let queue = Queue::default();
        (Self { queue: queue.clone(), metrics, kind, calls }, queue, called)
    }

    /// There is news.
    pub(crate) fn call(&self, namespace: &str, name: &str) {
        self.call_for(object(namespace, name));
    }

    fn call_for(&self, object: ObjectRef<K>) {
        if self.queue.enter(object.clone()) {
            self.metrics.waiting(self.kind, self.queue.len());
            // Nobody listens any more only when the program ends.
            let _ = self.calls.send(object);
        }
    }
}

/// An object by its namespace and name; without a namespace, one outside of namespaces.
fn object<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> ObjectRef<K> {
    let object = ObjectRef::new(name);
    if namespace.is_empty() { object } else { object.within(namespace) }
}

/// Read a watch to its end and tell of everything it brings.
pub(crate) async fn tell<K>(mut changes: Changes<K>, news: impl Fn(&K))
where
    K: Resource,
    K::DynamicType: Default,
{
    while let Some(change) = changes.next().await {
        match &change {
            Ok(object) => news(object),
            Err(error) => {
                let kind = K::kind(&K::DynamicType::default()).into_owned();
                tracing::warn!(error = %kit::telemetry::chain(error), %kind, "a watch failed and is being restarted");
            }
        }
    }
}

/// A label of an object, with its namespace.
pub(crate) fn labelled_with<'a, K: Resource>(object: &'a K, key: &str) -> Option<(String, &'a str)> {
    let name = object.labels().get(key)?;
    Some((object.namespace()?, name.as_str()))
}
