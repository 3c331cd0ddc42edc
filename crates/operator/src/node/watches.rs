//! Calling `reconcile` when something changed.

use std::future::ready;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::{Caches, Context, Guarded};
use super::{on_error, reconcile};
use crate::watch::received;

/// Reconciles at the same time: enough to hide slow servers, few enough to be gentle with the API server.
const CONCURRENCY: u16 = 16;

/// Run the controller until `stop`.
pub(crate) async fn control(
    context: Arc<Context>,
    nodes: mpsc::UnboundedReceiver<Result<Guarded, watcher::Error>>,
    calls: mpsc::UnboundedReceiver<ObjectRef<Guarded>>,
    stop: CancellationToken,
) {
    let forgetting = context.clone();
    Controller::for_stream(received(nodes), context.caches.nodes.clone())
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .reconcile_on(received(calls))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(reconcile, |node, error, context| on_error(&node, error, &context), context)
        .for_each(|result| {
            if let Err(controller::Error::ObjectNotFound(gone)) = result {
                let gone = ObjectRef::new(&gone.name).within(gone.namespace.as_deref().unwrap_or_default());
                forgetting.queue.leave(&gone);
                forgetting.backoff.succeeded(&gone);
            }
            ready(())
        })
        .await;
}

impl Caches {
    pub(crate) async fn wait_until_filled(&self) {
        // An error here means that the watch has ended with the program.
        let _ = futures::join!(
            self.nodes.wait_until_ready(),
            self.stateful_sets.wait_until_ready(),
            self.deployments.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.services.wait_until_ready(),
            self.config_maps.wait_until_ready(),
            self.claims.wait_until_ready(),
        );
    }
}
