//! The controller of `ValkeyCertificateBundle`: the authority of one cluster for one purpose.

mod act;
mod observe;
mod plan;
mod status;
mod stored;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::certificates::{BundlePhase, ValkeyCertificateBundleStatus};
use api::condition::CertificateReason;
use api::{ValkeyCertificateBundle, names};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use snafu::ResultExt as _;

use super::control::{Controls, Desk};
use super::place::Place;
use super::{Caches, events, soon, wake};
use crate::pass::{ActSnafu, Error};
use crate::references::References;
use act::Outcome;
use status::Found;
pub(super) use stored::Stored;

/// Name of this controller in metrics.
pub(super) const KIND: &str = "ValkeyCertificateBundle";

/// What the controller works with.
pub(super) struct Bundles {
    pub(super) desk: Desk<ValkeyCertificateBundle>,
    pub(super) caches: Caches,
    pub(super) references: Arc<References>,
    pub(super) operator_namespace: String,
}

/// The Secret with the key of a bundle's authority.
pub(super) fn key_secret(bundle: &ValkeyCertificateBundle) -> String {
    bundle
        .spec
        .key_secret_ref
        .as_ref()
        .map_or_else(|| names::bundle_key(&bundle.name_any()), |secret| secret.name.clone())
}

fn public_secret(bundle: &ValkeyCertificateBundle) -> String {
    let given = bundle.spec.cert_secret_ref.as_ref();
    given.map_or_else(|| names::bundle_certificates(&bundle.name_any()), |secret| secret.name.clone())
}

impl Controls for Bundles {
    type Kind = ValkeyCertificateBundle;

    fn desk(&self) -> &Desk<ValkeyCertificateBundle> {
        &self.desk
    }

    async fn pass(&self, bundle: &ValkeyCertificateBundle) -> Result<(&'static str, Action), Error> {
        let now = super::now();
        let Some(place) = Place::of(bundle, &bundle.spec.cluster_ref.name) else {
            return Ok(("unnamed", Action::await_change()));
        };
        let observed = self.observe(bundle, &place, now).await;
        let outcome = self.act(bundle, &place, &observed, now).await;
        // After a conflict, what was looked at is not what there is: whatever was found out is not so.
        if !matches!(&outcome, Outcome::Failed(error) if error.is_conflict()) {
            self.report(bundle, &outcome, now).await?;
        }
        match outcome {
            Outcome::Failed(error) => Err(error).context(ActSnafu { kind: KIND, object: place.name }),
            Outcome::Signs { stored, .. } => {
                let policy = &bundle.spec.rotation_policy;
                let renewal = policy.auto_rotate.then(|| plan::renewal(policy, &stored));
                let ends = stored.issuer.authority.certificate().ends;
                // A party that is waited for calls when it has what was published, but not when it goes elsewhere.
                let moving = stored.is_moving().then(|| {
                    let in_a_minute = now.saturating_add(SignedDuration::from_mins(1)).unwrap_or(ends);
                    [stored.settled(plan::settle(policy)), in_a_minute]
                });
                Ok((
                    "looked",
                    wake(renewal.into_iter().chain([ends]).chain(moving.into_iter().flatten()), now),
                ))
            }
            Outcome::Waits(_) | Outcome::Wrong(..) => Ok(("waiting", soon())),
        }
    }

    fn forget(&self, namespace: &str, name: &str) {
        self.desk.metrics.certificates.forget(KIND, (namespace, name));
    }
}

impl Bundles {
    async fn report(
        &self,
        bundle: &ValkeyCertificateBundle,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Result<(), Error> {
        let before = bundle.status.clone().unwrap_or_default();
        let found = match outcome {
            Outcome::Signs { stored, waits_for, hint } => {
                Found::Signs { stored, waits_for, hint: hint.clone() }
            }
            Outcome::Waits(message) => Found::Waits {
                phase: BundlePhase::WaitingForCA,
                reason: CertificateReason::WaitingForCA,
                message: message.clone(),
            },
            Outcome::Wrong(reason, message) => Found::Wrong { reason: *reason, message: message.clone() },
            Outcome::Failed(error) => refused(error),
        };
        let after = status::status(&found, &before, bundle.metadata.generation, now);
        self.measure(bundle, &before, &after);
        if before == after {
            return Ok(());
        }
        let report = self.desk.report();
        report.write_status(bundle, &after).await?;
        report.tell(bundle, &events::between(&before.conditions, &after.conditions)).await;
        Ok(())
    }

    fn measure(
        &self,
        bundle: &ValkeyCertificateBundle,
        before: &ValkeyCertificateBundleStatus,
        after: &ValkeyCertificateBundleStatus,
    ) {
        let told = &self.desk.metrics.certificates;
        let (namespace, name) = (bundle.namespace().unwrap_or_default(), bundle.name_any());
        let ends = after.expires_at.as_ref().map(|at| at.0);
        told.seen(KIND, (&namespace, &name), after.phase.map(Into::into), ends);
        if before.thumbprint.is_some() && before.thumbprint != after.thumbprint {
            told.rotated(KIND);
        }
    }
}

/// A refusal of the API server needs somebody; anything else is tried again and is no news.
fn refused(error: &kit::apply::Error) -> Found<'static> {
    match error.refusal() {
        Some(words) if !error.is_namespace_ending() => {
            Found::Wrong { reason: CertificateReason::ApplyRefused, message: words.to_owned() }
        }
        _ => Found::Waits {
            phase: BundlePhase::WaitingForSecret,
            reason: CertificateReason::Pending,
            message: "a Secret of the authority is being written".to_owned(),
        },
    }
}
