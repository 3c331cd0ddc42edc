//! What a user reads of the certificates of a party.

use api::certificates::{
    ActiveCertificate, BindingPhase, BoundCertificate, BundlePurpose, Component, DeprecatedCertificate,
    ValkeyCertificateBindingStatus,
};
use api::condition::{Assessment, CertificateCondition, CertificateReason, merge};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::held::Held;

/// How many of those that were replaced are listed.
const LISTED: usize = 32;

/// A certificate that is in its Secret.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    pub(super) wanted: &'a BoundCertificate,
    pub(super) purpose: BundlePurpose,
    pub(super) held: Held,
}

/// Why not every certificate is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    WaitsForBundle(String),
    Wrong(CertificateReason, String),
}

/// What a pass came to.
pub(super) struct Outcome<'a> {
    pub(super) bound: Vec<Bound<'a>>,
    /// Those that could not be looked at: what was known of them still is.
    pub(super) unseen: Vec<Component>,
    /// The first thing that is wrong.
    pub(super) trouble: Option<Trouble>,
}

pub(super) fn status(
    outcome: &Outcome<'_>,
    grace: SignedDuration,
    before: &ValkeyCertificateBindingStatus,
    generation: Option<i64>,
    now: Timestamp,
) -> ValkeyCertificateBindingStatus {
    let mut active: Vec<ActiveCertificate> = outcome.bound.iter().map(active).collect();
    active.extend(before.active.iter().filter(|one| outcome.unseen.contains(&one.component)).cloned());
    let deprecated = deprecated(&active, grace, before, now);
    let expires_at = active.iter().map(|one| one.expires_at.clone()).min();
    let (phase, reason, message) = judged(outcome, &deprecated, expires_at.as_ref());
    let ready = Assessment {
        condition: CertificateCondition::Ready,
        state: outcome.trouble.is_none().into(),
        reason,
        message: message.clone(),
    };
    let mut after = ValkeyCertificateBindingStatus {
        observed_generation: generation,
        phase: Some(phase),
        message: Some(message),
        expires_at,
        active,
        deprecated,
        rotated_for: rotated_for(outcome, before),
        last_checked: before.last_checked.clone(),
        conditions: merge(&before.conditions, &[ready], generation, now),
    };
    if after != *before {
        after.last_checked = Some(Time(now));
    }
    after
}

fn active(bound: &Bound<'_>) -> ActiveCertificate {
    let Bound { wanted, purpose, held } = bound;
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    ActiveCertificate {
        component: wanted.component,
        purpose: *purpose,
        bundle_ref: wanted.bundle_ref.clone(),
        secret_name: wanted.secret_name.clone(),
        thumbprint: held.certificate.thumbprint.clone(),
        issued_at: Time(held.certificate.begins),
        expires_at: Time(held.certificate.ends),
        trusts: number(held.numbers.trusts),
        issued_under: number(held.numbers.issued_under),
    }
}

/// The order that every certificate was issued for, or after.
fn rotated_for(outcome: &Outcome<'_>, before: &ValkeyCertificateBindingStatus) -> Option<String> {
    let mut orders = outcome.bound.iter().map(|bound| bound.held.numbers.rotated_for.as_ref());
    let first = orders.next().flatten();
    let is_one = outcome.unseen.is_empty() && orders.all(|order| order == first);
    if is_one { first.cloned() } else { before.rotated_for.clone() }
}

/// Those that were active and have another in their place now.
pub(super) fn replaced<'a>(
    before: &'a ValkeyCertificateBindingStatus,
    active: &'a [ActiveCertificate],
) -> impl Iterator<Item = &'a ActiveCertificate> {
    before.active.iter().filter(|then| {
        active.iter().any(|now| now.component == then.component && now.thumbprint != then.thumbprint)
    })
}

/// Those that were just replaced, and those before whose time is not over.
fn deprecated(
    active: &[ActiveCertificate],
    grace: SignedDuration,
    before: &ValkeyCertificateBindingStatus,
    now: Timestamp,
) -> Vec<DeprecatedCertificate> {
    let accept_until = Time(now.saturating_add(grace).unwrap_or(now));
    let replaced = replaced(before, active).map(|one| DeprecatedCertificate {
        component: one.component,
        thumbprint: one.thumbprint.clone(),
        accept_until: accept_until.clone(),
    });
    let still = before.deprecated.iter().filter(|one| one.accept_until.0 > now).cloned();
    let all: Vec<_> = still.chain(replaced).collect();
    let beyond = all.len().saturating_sub(LISTED);
    all.into_iter().skip(beyond).collect()
}

fn judged(
    outcome: &Outcome<'_>,
    deprecated: &[DeprecatedCertificate],
    expires_at: Option<&Time>,
) -> (BindingPhase, CertificateReason, String) {
    match &outcome.trouble {
        Some(Trouble::WaitsForBundle(message)) => {
            (BindingPhase::WaitingForBundle, CertificateReason::WaitingForBundle, message.clone())
        }
        Some(Trouble::Wrong(reason, message)) => (BindingPhase::Error, *reason, message.clone()),
        None => {
            let ends = expires_at.map(|at| at.0.to_string()).unwrap_or_default();
            match deprecated.last() {
                None => (BindingPhase::Applied, CertificateReason::Issued, format!("valid until {ends}")),
                Some(last) => {
                    let until = &last.accept_until.0;
                    let message = format!("valid until {ends}; what was replaced is accepted until {until}");
                    (BindingPhase::Rotating, CertificateReason::Rotating, message)
                }
            }
        }
    }
}
