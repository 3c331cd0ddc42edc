//! What becomes of a root that the operator makes: made once, and replaced in three steps. It is made known before it signs,
//! and the one before stays known until everything below it is signed by the new one: those who trust the root are not ours to
//! ask, so time is given to them.

use api::certificates::ValkeyCASpec;
use jiff::{SignedDuration, Timestamp};
use pki::lifetime::due_since_signed;

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
    /// Nobody knows when the last step was: count from now.
    Date,
    /// The one that signs is over: make another one, which signs at once. Nobody who waited would be spared anything.
    Replace,
}

/// A deed, and when to look again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) deed: Deed,
    pub(super) wake: Option<Timestamp>,
}

/// A bundle below a root: its name, and which root stands above everything that it signed.
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
    let life = certificate.ends.duration_since(certificate.begins);
    let overlap = spec.overlap.duration().unwrap_or(SignedDuration::from_hours(1)).min(life / 10);
    if certificate.ends <= now {
        return only(Deed::Replace);
    }
    let is_between = stored.is_announced() || stored.is_overlapping();
    let Some(since) = stored.since else { return only(Deed::Date) };
    let after_overlap = since.saturating_add(overlap).unwrap_or(Timestamp::MAX);
    if stored.is_announced() {
        let wait = Plan { deed: Deed::Rest, wake: Some(after_overlap) };
        return if now < after_overlap { wait } else { only(Deed::Switch) };
    }
    if stored.is_overlapping()
        && now >= after_overlap
        && lagging(&certificate.thumbprint, followers).is_empty()
    {
        return only(Deed::Retire);
    }
    let due = due_since_signed(certificate.begins, certificate.ends, spec.rotate_before_percent);
    let is_ordered = order.is_some() && order != stored.rotated_for.as_deref();
    if is_ordered || now >= due {
        return only(Deed::Announce);
    }
    // Whoever follows calls, but a follower that goes elsewhere does not.
    let in_a_minute = now.saturating_add(SignedDuration::from_mins(1)).unwrap_or(due);
    let between = if now < after_overlap { after_overlap } else { in_a_minute };
    Plan { deed: Deed::Rest, wake: Some(if is_between { due.min(between) } else { due }) }
}

/// Those below a root whose certificates are not all signed by it.
pub(super) fn lagging(root: &str, followers: &[Follower]) -> Vec<String> {
    let mut lagging: Vec<String> = followers
        .iter()
        .filter(|one| one.root.as_deref() != Some(root))
        .map(|one| one.name.clone())
        .collect();
    // In an order of their own: what is said must not change while nothing does.
    lagging.sort();
    lagging
}
