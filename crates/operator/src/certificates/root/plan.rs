//! What becomes of a root that the operator makes: made once, and replaced in three steps. It is made known before it signs,
//! and the one before stays known until everything below it is signed by the new one: those who trust the root are not ours to
//! ask, so time is given to them.

use api::certificates::ValkeyCASpec;
use jiff::{SignedDuration, Timestamp};
use pki::lifetime::due;

use super::stored::Contents;

/// What is done in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Rest,
    /// There is none: make it.
    Make,
    /// Make another one and let everybody know of it.
    Announce,
    /// It signs from now on.
    Switch,
    /// Forget those before.
    Retire,
}

/// A deed, and when to look again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) deed: Deed,
    pub(super) wake: Option<Timestamp>,
}

/// A bundle below a root: its name, and which root signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Follower {
    pub(super) name: String,
    pub(super) root: Option<String>,
}

pub(super) fn plan(
    spec: &ValkeyCASpec,
    stored: Option<&Contents>,
    order: Option<&str>,
    followers: &[Follower],
    now: Timestamp,
) -> Plan {
    let only = |deed| Plan { deed, wake: None };
    let Some(stored) = stored else { return only(Deed::Make) };
    let Some(certificate) = stored.certificate() else { return only(Deed::Rest) };
    let overlap = spec.overlap.duration().unwrap_or(SignedDuration::from_hours(1));
    let after_overlap = stored.since.saturating_add(overlap).unwrap_or(Timestamp::MAX);
    let wait = Plan { deed: Deed::Rest, wake: Some(after_overlap) };
    if stored.is_announced() {
        return if now < after_overlap { wait } else { only(Deed::Switch) };
    }
    if stored.is_overlapping() {
        let everybody_follows =
            followers.iter().all(|one| one.root.as_deref() == Some(certificate.thumbprint.as_str()));
        return match (now < after_overlap, everybody_follows) {
            (true, _) => wait,
            // Whoever follows calls.
            (false, false) => only(Deed::Rest),
            (false, true) => only(Deed::Retire),
        };
    }
    let due = due(certificate.begins, certificate.ends, spec.rotate_before_percent);
    let is_ordered = order.is_some() && order != stored.rotated_for.as_deref();
    if is_ordered || now >= due {
        return only(Deed::Announce);
    }
    Plan { deed: Deed::Rest, wake: Some(due) }
}
