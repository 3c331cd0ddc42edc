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
    is_asked: bool,
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
    } else if now >= lifetime::due(certificate.begins, certificate.ends, percent) {
        Some(Cause::Due)
    } else {
        is_asked.then_some(Cause::Asked)
    };
    match cause {
        Some(cause) => Deed::Issue(cause),
        None if held.numbers.trusts != offer.generation || held.trusted != offer.trusted => Deed::Retrust,
        None => Deed::Keep,
    }
}
