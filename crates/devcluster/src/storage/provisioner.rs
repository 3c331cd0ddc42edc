//! The program that gives claims their volumes: watches, plans, acts.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use snafu::Report;

use super::disks::Disks;
use super::error::StorageError;
use super::objects;
use super::plan::plan;
use super::steps::Steps;

/// How long a failed step rests, doubled with every failure up to the longest.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Gives claims their volumes, on disks below `directory`, until `shutdown`.
pub async fn run(
    client: Client,
    directory: &Path,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StorageError> {
    let steps = Steps::new(client.clone(), Disks::open(directory)?);
    steps.ensure_storage_class().await?;

    let (claims, claim_writer) = reflector::store::<PersistentVolumeClaim>();
    let (volumes, volume_writer) = reflector::store::<PersistentVolume>();
    let claim_events = watcher(Api::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(claim_writer)
        .map(|event| event.map(drop));
    let volume_events = watcher(Api::all(client), watcher::Config::default())
        .default_backoff()
        .reflect(volume_writer)
        .map(|event| event.map(drop));
    let mut events = stream::select(claim_events, volume_events).boxed();
    let mut shutdown = pin!(shutdown);
    let mut retry = None;
    loop {
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            event = events.next() => report(event),
            () = tokio::time::sleep(retry.unwrap_or_default()), if retry.is_some() => {}
        }
        drain(&mut events);
        // Before both lists are complete a volume may look as if nobody knew it.
        let (Some(claims), Some(volumes)) = (complete(&claims), complete(&volumes)) else { continue };
        let succeeded = reconcile(&steps, &claims, &volumes).await;
        retry = (!succeeded).then(|| retry.map_or(FIRST_RETRY, |last| LONGEST_RETRY.min(last * 2)));
    }
}

/// Does what the present state asks for. One step's failure does not hold up the others.
async fn reconcile(
    steps: &Steps,
    claims: &[Arc<PersistentVolumeClaim>],
    volumes: &[Arc<PersistentVolume>],
) -> bool {
    let claims: Vec<_> = claims.iter().filter_map(|claim| objects::claim(claim)).collect();
    let volumes: Vec<_> = volumes.iter().filter_map(|volume| objects::volume(volume)).collect();
    let disks = match steps.disks().await {
        Ok(disks) => disks,
        Err(error) => {
            tracing::error!(error = %Report::from_error(error), "cannot see the disks");
            return false;
        }
    };
    let mut succeeded = true;
    for action in plan(&claims, &volumes, &disks) {
        tracing::info!(?action, "storage step");
        if let Err(error) = steps.take(action).await {
            tracing::error!(error = %Report::from_error(error), "storage step failed");
            succeeded = false;
        }
    }
    succeeded
}

fn complete<K>(store: &Store<K>) -> Option<Vec<Arc<K>>>
where
    K: kube::runtime::reflector::Lookup + Clone + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    store.wait_until_ready().now_or_never()?.ok()?;
    Some(store.state())
}

/// Takes in everything that has arrived already: it belongs to the same look at the cluster.
fn drain(events: &mut (impl Stream<Item = Result<(), watcher::Error>> + Unpin)) {
    while let Some(event @ Some(_)) = events.next().now_or_never() {
        report(event);
    }
}

/// The watch itself tries again; the error is only worth a line.
fn report(event: Option<Result<(), watcher::Error>>) {
    if let Some(Err(error)) = event {
        tracing::warn!(error = %Report::from_error(error), "a watch was interrupted");
    }
}
