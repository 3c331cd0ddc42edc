//! Calling `reconcile` when something changed.

use std::future::ready;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::{Context, Guarded};
use super::{on_error, reconcile};
use crate::watch::received;

/// Reconciles at the same time.
const CONCURRENCY: u16 = 8;

/// Run the controller until `stop`.
pub(crate) async fn control(
    context: Arc<Context>,
    clusters: mpsc::UnboundedReceiver<Result<Guarded, watcher::Error>>,
    calls: mpsc::UnboundedReceiver<ObjectRef<Guarded>>,
    stop: CancellationToken,
) {
    let forgetting = context.clone();
    Controller::for_stream(received(clusters), context.caches.clusters.clone())
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .reconcile_on(received(calls))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(reconcile, |cluster, error, context| on_error(&cluster, error, &context), context)
        .for_each(|result| {
            if let Err(controller::Error::ObjectNotFound(gone)) = result {
                forgetting.forget_the_gone();
                forgetting.metrics.clusters.forget(&kit::metrics::Cluster {
                    namespace: gone.namespace.clone().unwrap_or_default(),
                    name: gone.name.clone(),
                });
                let gone = ObjectRef::new(&gone.name).within(gone.namespace.as_deref().unwrap_or_default());
                forgetting.queue.leave(&gone);
                forgetting.backoff.succeeded(&gone);
            }
            ready(())
        })
        .await;
}
