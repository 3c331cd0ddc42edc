//! What every controller does around its passes: name what failed, write the status, tell of it, and decide how long to
//! wait after a failure.

use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kit::backoff::Backoff;
use kit::metrics::{Failure, Metrics};
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, Recorder};
use kube::runtime::reflector::ObjectRef;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use snafu::{ResultExt as _, Snafu};

/// Longest time one event may take: it is told, not negotiated.
const PUBLISH_WITHIN: Duration = Duration::from_secs(5);

/// The category of failures in a namespace that is being deleted: the object goes with it.
pub(crate) const ENDING: &str = "ending";

/// Why a pass failed.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub(crate)))]
pub(crate) enum Error {
    #[snafu(display("failed to bring the objects of {kind} {object} in line"))]
    Act { kind: &'static str, object: String, source: kit::apply::Error },
    #[snafu(display("failed to write what was seen of {kind} {object}"))]
    WriteStatus { kind: &'static str, object: String, source: kit::apply::Error },
}

impl Error {
    /// Category for metrics.
    pub(crate) fn category(&self) -> &'static str {
        let (Self::Act { source, .. } | Self::WriteStatus { source, .. }) = self;
        match self {
            _ if source.is_conflict() => "conflict",
            _ if source.is_namespace_ending() => ENDING,
            _ if source.refusal().is_some() => "refused",
            Self::Act { .. } => "act",
            Self::WriteStatus { .. } => "status",
        }
    }
}

/// Who reports, and in whose name.
pub(crate) struct Report<'a> {
    pub(crate) client: &'a Client,
    pub(crate) recorder: &'a Recorder,
    pub(crate) kind: &'static str,
    pub(crate) manager: &'static str,
}

impl Report<'_> {
    /// Write the status. An object that is gone needs none.
    pub(crate) async fn write_status<K, S>(&self, object: &K, status: &S) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
        S: Serialize + Sync,
    {
        let namespace = object.namespace().unwrap_or_default();
        self.write_status_at(&Api::<K>::namespaced(self.client.clone(), &namespace), object, status).await
    }

    /// The same for an object that may be outside of namespaces.
    pub(crate) async fn write_status_at<K, S>(
        &self,
        api: &Api<K>,
        object: &K,
        status: &S,
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
        S: Serialize + Sync,
    {
        let name = object.name_any();
        let uid = object.uid().unwrap_or_default();
        kit::apply::write_status(api, &name, &uid, self.manager, status)
            .await
            .or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
            .context(WriteStatusSnafu { kind: self.kind, object: name })
    }

    /// Tell of an object. What cannot be told is not worth a failed pass.
    pub(crate) async fn tell<K: Resource<DynamicType = ()>>(&self, object: &K, events: &[Event]) {
        let about = object.object_ref(&());
        for event in events {
            let published = self.recorder.publish(event, &about);
            match tokio::time::timeout(PUBLISH_WITHIN, published).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) if kit::apply::is_namespace_ending(&error) => {}
                Ok(Err(error)) => {
                    tracing::warn!(error = %kit::telemetry::chain(&error), reason = %event.reason, "failed to publish an event");
                }
                Err(_) => tracing::warn!(reason = %event.reason, "failed to publish an event in time"),
            }
        }
    }
}

/// Count a failure; its category.
pub(crate) fn counted(error: &Error, kind: &'static str, metrics: &Metrics) -> &'static str {
    let category = error.category();
    metrics.failures.get_or_create(&Failure { kind, error: category }).inc();
    category
}

/// A pass failed: count it, say it, and wait.
pub(crate) fn failed<K: Resource<DynamicType = ()> + Clone>(
    guarded: &DeserializeGuard<K>,
    error: &Error,
    kind: &'static str,
    backoff: &Backoff<ObjectRef<DeserializeGuard<K>>>,
    metrics: &Metrics,
) -> Action {
    let category = counted(error, kind, metrics);
    let (object, chain) = (guarded.name_any(), kit::telemetry::chain(error));
    let wait = backoff.failed(ObjectRef::from_obj(guarded));
    if category == ENDING {
        // The object goes with its namespace, and says so when it does.
        tracing::debug!(kind, %object, error = %chain, "its namespace is being deleted");
        return Action::requeue(wait);
    }
    if category == "conflict" {
        // Somebody wrote in between: looking again soon is all there is to do, unless it happens again and again.
        tracing::debug!(kind, %object, error = %chain, "conflict");
        return Action::requeue(wait / 4);
    }
    tracing::warn!(kind, %object, error = %chain, retry_in = ?wait, "reconcile failed");
    Action::requeue(wait)
}
