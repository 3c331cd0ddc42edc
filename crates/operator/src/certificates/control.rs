//! What the controllers of certificates do around their passes, whatever a pass is.

use std::fmt::Debug;
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Instant;

use api::keys;
use futures::StreamExt as _;
use kit::backoff::Backoff;
use kit::metrics::Metrics;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::events::Recorder;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::pass::{self, Error, Report};
use crate::watch::{Caller, Changes, Queue, received};

/// Reconciles of one kind at the same time.
const CONCURRENCY: u16 = 4;

/// A kind with a controller here.
pub(super) trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// What every controller works with.
pub(super) struct Desk<K: Kind> {
    pub(super) client: Client,
    pub(super) metrics: Metrics,
    pub(super) call: Caller<DeserializeGuard<K>>,
    recorder: Recorder,
    backoff: Backoff<ObjectRef<DeserializeGuard<K>>>,
    queue: Queue<DeserializeGuard<K>>,
    kind: &'static str,
}

/// Calls for objects of a kind.
pub(super) type Calls<K> = mpsc::UnboundedReceiver<ObjectRef<DeserializeGuard<K>>>;

impl<K: Kind> Desk<K> {
    pub(super) fn new(
        client: &Client,
        recorder: &Recorder,
        metrics: &Metrics,
        kind: &'static str,
    ) -> (Self, Calls<K>) {
        let (call, queue, calls) = Caller::new(kind, metrics.clone());
        let desk = Self {
            client: client.clone(),
            metrics: metrics.clone(),
            call,
            recorder: recorder.clone(),
            backoff: Backoff::default(),
            queue,
            kind,
        };
        (desk, calls)
    }

    /// Who reports what a pass saw.
    pub(super) fn report(&self) -> Report<'_> {
        Report {
            client: &self.client,
            recorder: &self.recorder,
            kind: self.kind,
            manager: keys::CERTIFICATES_FIELD_MANAGER,
        }
    }
}

/// What makes a controller this one.
pub(super) trait Controls: Send + Sync + 'static {
    type Kind: Kind;

    fn desk(&self) -> &Desk<Self::Kind>;

    /// One pass over one object: how it ended, and when to look again.
    fn pass(&self, object: &Self::Kind)
    -> impl Future<Output = Result<(&'static str, Action), Error>> + Send;

    /// An object is gone.
    fn forget(&self, namespace: &str, name: &str);
}

/// What a controller is fed with: objects of its kind, and calls for them.
pub(super) struct Feed<K: Kind> {
    known: mpsc::UnboundedReceiver<Result<DeserializeGuard<K>, watcher::Error>>,
    calls: Calls<K>,
}

/// Watch a kind: others hear of every change, its own controller of new specs and orders, because the rest is what it
/// wrote itself. The watch runs in a task of its own: a controller whose workers are all busy does not look at its inputs.
pub(super) fn feed<K: Kind>(
    changes: Changes<DeserializeGuard<K>>,
    tell_others: impl Fn(&DeserializeGuard<K>) + Send + 'static,
    calls: Calls<K>,
    watches: &mut JoinSet<()>,
) -> Feed<K> {
    let (pass_on, known) = mpsc::unbounded_channel();
    let news = predicates::generation.combine(predicates::annotations);
    watches.spawn(
        changes
            .inspect(move |change| {
                if let Ok(object) = change {
                    tell_others(object);
                }
            })
            .predicate_filter(news, PredicateConfig::default())
            .for_each(move |change| {
                if let Err(error) = &change {
                    let kind = K::kind(&());
                    tracing::warn!(error = %kit::telemetry::chain(error), %kind, "a watch failed and is being restarted");
                }
                // Nobody listens any more only when the program ends.
                let _ = pass_on.send(change);
                ready(())
            }),
    );
    Feed { known, calls }
}

/// Run a controller until `stop`.
pub(super) async fn run<C: Controls>(
    controls: Arc<C>,
    store: Store<DeserializeGuard<C::Kind>>,
    feed: Feed<C::Kind>,
    stop: CancellationToken,
) {
    let forgetting = controls.clone();
    Controller::for_stream(received(feed.known), store)
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .reconcile_on(received(feed.calls))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(
            reconcile::<C>,
            |object, error, controls: Arc<C>| failed(&object, error, controls.desk()),
            controls,
        )
        .for_each(|result| {
            if let Err(controller::Error::ObjectNotFound(gone)) = result {
                let namespace = gone.namespace.clone().unwrap_or_default();
                forgetting.forget(&namespace, &gone.name);
                let desk = forgetting.desk();
                let mut object = ObjectRef::new(&gone.name);
                object.namespace = gone.namespace;
                desk.queue.leave(&object);
                desk.backoff.succeeded(&object);
            }
            ready(())
        })
        .await;
}

async fn reconcile<C: Controls>(
    guarded: Arc<DeserializeGuard<C::Kind>>,
    controls: Arc<C>,
) -> Result<Action, Error> {
    let started = Instant::now();
    let desk = controls.desk();
    desk.queue.leave(&ObjectRef::from_obj(&*guarded));
    desk.metrics.waiting(desk.kind, desk.queue.len());
    let result = match &guarded.0 {
        Ok(object) if object.meta().deletion_timestamp.is_some() => Ok(("deleting", Action::await_change())),
        Ok(object) => controls.pass(object).await,
        // Its text would quote what it could not read.
        Err(_) => {
            tracing::error!(kind = desk.kind, object = %guarded.name_any(), "the object does not fit the types of this version; it is left alone");
            Ok(("unreadable", Action::await_change()))
        }
    };
    let outcome = match &result {
        Ok((outcome, _)) => outcome,
        Err(error) => error.category(),
    };
    desk.metrics.observe(desk.kind, outcome, started.elapsed());
    let (_, action) = result?;
    desk.backoff.succeeded(&ObjectRef::from_obj(&*guarded));
    Ok(action)
}

fn failed<K: Kind>(guarded: &DeserializeGuard<K>, error: &Error, desk: &Desk<K>) -> Action {
    pass::failed(guarded, error, desk.kind, &desk.backoff, &desk.metrics)
}
