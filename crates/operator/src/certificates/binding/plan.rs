//! Which certificates are issued, and which only get to know others to trust.

use std::collections::BTreeSet;

use jiff::Timestamp;
use pki::{Expected, Leaf, judge, lifetime};

use super::held::{Held, is_for};

/// What a bundle offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Whom members trust.
    pub(super) trusted: String,
    /// The number of that.
    pub(super) generation: u64,
    /// The number under which the one who signs began to.
    pub(super) issuing_since: u64,
    /// When the one who signs is over: nothing it signs lasts longer.
    pub(super) ends: Timestamp,
}

/// What is done for one certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It is as it should be.
    Keep,
    /// The same certificate, and others to trust.
    Retrust,
    /// Another certificate, because of this.
    Issue(Cause),
}

/// Why a certificate is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// There is none that can be read.
    Missing,
    /// It says something else than it should.
    Other,
    /// Those who hold it, or those who trust what it says, would not believe it.
    NotBelieved,
    /// Another authority signs now.
    Authority,
    /// Enough of its life is over.
    Due,
    /// Somebody asks for it.
    Asked,
}

pub(super) fn plan(
    held: Option<&Held>,
    leaf: &Leaf,
    offer: &Offer,
    percent: u8,
    order: Option<&str>,
    now: Timestamp,
) -> Deed {
    let Some(held) = held else { return Deed::Issue(Cause::Missing) };
    let certificate = &held.certificate;
    let uris: Vec<String> = leaf.identity.iter().map(ToString::to_string).collect();
    let purposes: BTreeSet<_> = leaf.purposes.iter().copied().collect();
    let is_other = certificate.name != leaf.name
        || certificate.purposes != purposes
        || !is_for(certificate, &leaf.hosts, &leaf.addresses, &uris);
    let expected = Expected { purposes: leaf.purposes.clone(), hosts: Vec::new() };
    let cause = if is_other {
        Some(Cause::Other)
    } else if judge(&held.chain, &held.key, &offer.trusted, &expected, now).is_err() {
        Some(Cause::NotBelieved)
    } else if held.numbers.issued_under < offer.issuing_since {
        Some(Cause::Authority)
    } else if now >= due(held, percent) && lasts(leaf, offer) > certificate.ends {
        Some(Cause::Due)
    } else {
        (order.is_some() && order != held.numbers.rotated_for.as_deref()).then_some(Cause::Asked)
    };
    match cause {
        Some(cause) => Deed::Issue(cause),
        None if held.numbers.trusts != offer.generation || held.trusted != offer.trusted => Deed::Retrust,
        None => Deed::Keep,
    }
}

/// The moment at which a certificate is to be replaced.
pub(super) fn due(held: &Held, percent: u8) -> Timestamp {
    lifetime::due_since_signed(held.certificate.begins, held.certificate.ends, percent)
}

/// Until when a new one would last. One that ends no later than the one before is no gain.
fn lasts(leaf: &Leaf, offer: &Offer) -> Timestamp {
    leaf.from.saturating_add(leaf.validity).unwrap_or(Timestamp::MAX).min(offer.ends)
}
