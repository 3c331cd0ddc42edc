//! The controller of `ValkeyCA`. It runs once, whatever namespaces the operator works in: a root belongs to none, and its
//! Secret is in the operator's own.

mod cert_manager;
mod given;
mod own;
mod plan;
mod status;
mod stored;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::certificates::CaSource;
use api::condition::CertificateReason;
use api::{ValkeyCA, ValkeyCertificateBundle, keys};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::metrics::Metrics;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::Store;
use kube::{Client, ResourceExt as _};
use snafu::ResultExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::control::{self, Controls, Desk};
use super::{KEEP_SECRETS_FOR, events, soon, wake};
use crate::pass::{ActSnafu, Error};
use crate::references::{Known, References};
use crate::settings::Settings;
use crate::watch::{Scope, tell};
use given::given;
use status::Found;
pub(super) use stored::Root;
use stored::Unreadable;

/// Name of this controller in metrics.
const KIND: &str = "ValkeyCA";

/// The Secret of a root, in the operator's namespace.
pub(super) fn secret_name(root: &ValkeyCA) -> String {
    root.spec.ca_cert_secret_ref.as_ref().map_or_else(|| root.name_any(), |secret| secret.name.clone())
}

/// The root in a Secret, if those who trust it would believe what is signed below it; otherwise why not.
pub(super) fn usable(secret: &Secret, now: Timestamp) -> Result<Root, String> {
    let root = stored::root(secret).map_err(|unreadable| match unreadable {
        Unreadable::Missing(missing) => format!("its Secret lacks {}", missing.join(" and ")),
        Unreadable::Broken(why) => why,
    })?;
    root.authority.prove(now).map_err(|error| kit::telemetry::chain(&error))?;
    Ok(root)
}

/// What the controller works with.
struct Roots {
    desk: Desk<ValkeyCA>,
    references: References,
    bundles: Vec<Store<DeserializeGuard<ValkeyCertificateBundle>>>,
    namespace: String,
}

/// Run the controller until `stop`, for an operator that works in these namespaces.
pub(crate) async fn run(
    client: Client,
    scopes: Vec<Option<String>>,
    settings: Settings,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let reporter = Reporter { controller: keys::MANAGED_BY_VALUE.to_owned(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    let (desk, calls) = Desk::new(&client, &recorder, &metrics, KIND);
    let mut watches = JoinSet::new();
    let mut bundles = Vec::new();
    for namespace in scopes {
        let (store, changes) =
            Scope { client: client.clone(), namespace }.guarded::<ValkeyCertificateBundle>();
        bundles.push(store);
        let call = desk.call.clone();
        watches.spawn(tell(changes, move |bundle: &DeserializeGuard<ValkeyCertificateBundle>| {
            if let Ok(bundle) = &bundle.0 {
                call.call("", &bundle.spec.ca_ref.name);
            }
        }));
    }
    let (roots, changes) = Scope { client: client.clone(), namespace: None }.outside::<ValkeyCA>();
    let feed = control::feed(changes, |_| {}, calls, &mut watches);
    tokio::select! {
        () = stop.cancelled() => return,
        () = async { for store in &bundles { let _ = store.wait_until_ready().await; } } => {}
    }
    let controls = Roots { desk, references: References::default(), bundles, namespace: settings.namespace };
    control::run(Arc::new(controls), roots, feed, stop).await;
}

impl Controls for Roots {
    type Kind = ValkeyCA;

    fn desk(&self) -> &Desk<ValkeyCA> {
        &self.desk
    }

    async fn pass(&self, root: &ValkeyCA) -> Result<(&'static str, Action), Error> {
        let now = super::now();
        let (name, before) = (root.name_any(), root.status.clone().unwrap_or_default());
        let secret_name = secret_name(root);
        let referrer = self.desk.call.referrer("", &name, KEEP_SECRETS_FOR);
        let known = self.references.read(&self.desk.client, (&self.namespace, &secret_name), referrer).await;
        let live = match &known {
            Known::There(secret) => Some(secret.as_ref()),
            Known::Missing => None,
            // Nothing is known of it, good or bad, so nothing is said; and to make another root because this one was not seen in
            // time would end everything it signed.
            Known::NotYet => return Ok(("unseen", soon())),
        };
        let Seen { found, moments, mut error } = match root.spec.source {
            CaSource::External => {
                let seen = given(&root.spec, live, &secret_name, now);
                match self.ask_cert_manager(root, &secret_name).await {
                    Ok(()) => seen,
                    // A root that is there signs, whoever cannot be asked for another.
                    Err(trouble) if matches!(seen.found, Found::Root { .. }) => {
                        Seen { error: trouble.error, ..seen }
                    }
                    Err(trouble) => trouble,
                }
            }
            CaSource::Internal => self.own(root, live, &secret_name, now).await,
        };
        if let Some(conflict) = error.take_if(|error| error.is_conflict()) {
            // What was looked at is not what there is: whatever was found out is not so.
            return Err(conflict).context(ActSnafu { kind: KIND, object: name });
        }
        let after = status::status(&found, &secret_name, &before, root.metadata.generation, now);
        let report = self.desk.report();
        if before != after {
            let api = Api::<ValkeyCA>::all(self.desk.client.clone());
            report.write_status_at(&api, root, &after).await?;
            report.tell(root, &events::between(&before.conditions, &after.conditions)).await;
        }
        let told = &self.desk.metrics.certificates;
        told.seen(KIND, ("", &name), after.phase.map(Into::into), after.expires_at.as_ref().map(|at| at.0));
        if before.thumbprint.is_some() && before.thumbprint != after.thumbprint {
            told.rotated(KIND);
        }
        if let Some(error) = error {
            return Err(error).context(ActSnafu { kind: KIND, object: name });
        }
        match found {
            Found::Root { .. } => Ok(("looked", wake(moments, now))),
            Found::Waiting { .. } | Found::Wrong { .. } => Ok(("waiting", soon())),
        }
    }

    fn forget(&self, namespace: &str, name: &str) {
        self.desk.metrics.certificates.forget(KIND, (namespace, name));
    }
}

/// What a pass found out, when to look again, and what went wrong on the way.
struct Seen {
    found: Found,
    moments: Vec<Timestamp>,
    error: Option<kit::apply::Error>,
}

impl From<Found> for Seen {
    fn from(found: Found) -> Self {
        Self { found, moments: Vec::new(), error: None }
    }
}

fn waiting(missing: Vec<String>, message: String) -> Found {
    Found::Waiting { missing, message }
}

fn unusable(message: String) -> Found {
    Found::Wrong { reason: CertificateReason::Unusable, message }
}
