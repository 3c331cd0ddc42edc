//! What becomes of a bundle's authority.

use std::collections::{BTreeMap, BTreeSet};

use api::certificates::RotationPolicy;
use jiff::{SignedDuration, Timestamp};
use pki::Certificate;
use pki::lifetime::due_since_signed;
use pki::rotation::{self, Next, Proof, Published};

use super::stored::Stored;

/// What is done in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Rest,
    /// There is no authority: make it.
    Begin,
    /// Make another one, which takes over step by step.
    Renew,
    /// The next step.
    Publish(Published),
    /// The last one is everywhere, and has to reach the pods.
    Settle,
    /// These have not shown yet that they have the last one.
    WaitFor(BTreeSet<String>),
    /// An authority is wanted, and there is no root that could sign it.
    WaitForRoot,
}

/// What is asked for besides what is stored.
pub(super) struct Asked<'a> {
    pub(super) policy: &'a RotationPolicy,
    pub(super) order: Option<&'a str>,
    /// The root, if there is one that can sign.
    pub(super) root: Option<&'a Certificate>,
    /// How long a new authority would be valid.
    pub(super) validity: SignedDuration,
}

/// What comes next. Only one authority is on its way at a time: what is asked for meanwhile comes after it.
pub(super) fn plan(
    asked: &Asked<'_>,
    stored: Option<&Stored>,
    parties: &BTreeMap<String, Proof>,
    now: Timestamp,
) -> Deed {
    let Some(stored) = stored else {
        return if asked.root.is_some() { Deed::Begin } else { Deed::WaitForRoot };
    };
    let (published, nobody) = (stored.published(), BTreeMap::new());
    // With what an authority signed that is over, nobody talks any more: there is nobody to wait for, and whoever waited for a
    // certificate of it would wait for ever.
    let parties = if stored.is_over(now) { &nobody } else { parties };
    let settled = stored.settled(settle(asked.policy));
    match rotation::next(&published, &stored.wanted(), parties) {
        Next::Publish(_) if !parties.is_empty() && now < settled => Deed::Settle,
        Next::Publish(published) => Deed::Publish(published),
        Next::WaitFor(parties) if stored.is_moving() => Deed::WaitFor(parties),
        // A party that is only late with something old holds up no new beginning: nothing new is used before it has it.
        Next::Rest | Next::WaitFor(_) => match (is_due(asked, stored, now), asked.root) {
            (Some(_), Some(_)) => Deed::Renew,
            (Some(Cause::Asked), None) => Deed::WaitForRoot,
            _ => Deed::Rest,
        },
    }
}

/// Why another authority is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Its time has come, or somebody asks for it.
    Asked,
    /// The root is another one.
    Root,
}

fn is_due(asked: &Asked<'_>, stored: &Stored, now: Timestamp) -> Option<Cause> {
    let is_ordered = asked.order.is_some() && asked.order != stored.rotated_for.as_deref();
    let is_over_soon = asked.policy.auto_rotate && now >= renewal(asked.policy, stored);
    if is_ordered || (is_over_soon && is_gain(asked, stored, now)) {
        return Some(Cause::Asked);
    }
    let is_other = asked.root.is_some_and(|root| root.thumbprint != stored.issuer.root);
    (asked.policy.auto_rotate && is_other).then_some(Cause::Root)
}

/// Whether a new authority would last longer. Below a root that is over first, it would not, again and again.
fn is_gain(asked: &Asked<'_>, stored: &Stored, now: Timestamp) -> bool {
    let lasts = now.saturating_add(asked.validity).unwrap_or(Timestamp::MAX);
    let lasts = asked.root.map_or(lasts, |root| lasts.min(root.ends));
    lasts > stored.issuer.authority.certificate().ends
}

/// How long a step lasts at least.
pub(super) fn settle(policy: &RotationPolicy) -> SignedDuration {
    policy.settle.duration().unwrap_or(SignedDuration::from_mins(2))
}

/// The moment at which an authority is to be replaced.
pub(super) fn renewal(policy: &RotationPolicy, stored: &Stored) -> Timestamp {
    let certificate = stored.issuer.authority.certificate();
    let by_percent = due_since_signed(certificate.begins, certificate.ends, policy.rotate_before_percent);
    let by_days = policy.renew_before_days.map(|days| {
        let days = SignedDuration::from_hours(24 * i64::from(days));
        certificate.ends.saturating_sub(days).unwrap_or(certificate.begins).max(certificate.begins)
    });
    by_days.map_or(by_percent, |by_days| by_days.min(by_percent))
}
