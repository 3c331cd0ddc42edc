//! When a certificate is issued, and what a user reads of it.

use std::collections::BTreeSet;

use api::certificates::{BindingPhase, Component, Reference, Validity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pki::{Authority, Certificate, Purpose};
use pretty_assertions::assert_eq;

use super::plan::{Cause, plan};
use super::status::status;
use super::*;

fn noon() -> Timestamp {
    "2026-11-17T12:00:00Z".parse().expect("should be a time")
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn wanted(component: Component) -> BoundCertificate {
    BoundCertificate {
        component,
        bundle_ref: Reference::to("cache-mtls"),
        secret_name: "cache-sidecar".to_owned(),
        pod: Some("valkey-cache-0-0-0".to_owned()),
        hosts: vec!["b".to_owned(), "a".to_owned()],
        addresses: vec!["10.0.0.1".parse().expect("should be one")],
        validity: Validity::days(90),
    }
}

fn leaf_of(wanted: &BoundCertificate) -> Leaf {
    let whose = Whose { trust_domain: "valkey.local", namespace: "team", cluster: "cache" };
    leaf::leaf(wanted, &whose, days(90), noon())
}

fn authority() -> Authority {
    let root = Authority::root("root", noon(), days(1000)).expect("should be made");
    root.below("cache mtls", noon(), days(365)).expect("should be signed")
}

fn offer(authority: &Authority, generation: u64, issuing_since: u64) -> Offer {
    Offer {
        trusted: authority.anchor().to_owned(),
        generation,
        issuing_since,
        ends: authority.certificate().ends,
    }
}

fn held(authority: &Authority, leaf: &Leaf) -> Held {
    let (chain, key) = authority.issue(leaf).expect("should be signed");
    let certificate = Certificate::read(&chain).expect("should be read");
    let numbers = Numbers { trusts: 1, issued_under: 1, rotated_for: Some("old".to_owned()) };
    let held = Held { chain, key: key.pem(), trusted: authority.anchor().to_owned(), numbers, certificate };
    Held::read(&held.secret(ObjectMeta::default())).expect("should be read back")
}

#[test]
fn a_certificate_is_issued_for_a_reason_and_otherwise_kept() {
    let (authority, other) = (authority(), authority());
    let leaf = leaf_of(&wanted(Component::Sidecar));
    let held = held(&authority, &leaf);
    let deed = |held: Option<&Held>, leaf: &Leaf, offer: &Offer, order: Option<&str>, later: i64| {
        let now = noon() + days(later);
        plan(held, &Leaf { from: now, ..leaf.clone() }, offer, 66, order, now)
    };
    let same = offer(&authority, 1, 1);
    assert_eq!(deed(None, &leaf, &same, None, 0), Deed::Issue(Cause::Missing));
    assert_eq!(deed(Some(&held), &leaf, &same, None, 0), Deed::Keep);
    assert_eq!(deed(Some(&held), &leaf, &same, None, 58), Deed::Keep);
    assert_eq!(deed(Some(&held), &leaf, &same, None, 60), Deed::Issue(Cause::Due));
    assert_eq!(deed(Some(&held), &leaf, &same, Some("new"), 0), Deed::Issue(Cause::Asked));
    assert_eq!(deed(Some(&held), &leaf, &offer(&authority, 2, 1), None, 0), Deed::Retrust);
    assert_eq!(deed(Some(&held), &leaf, &offer(&authority, 2, 2), None, 0), Deed::Issue(Cause::Authority));
    assert_eq!(deed(Some(&held), &leaf, &offer(&other, 1, 1), None, 0), Deed::Issue(Cause::NotBelieved));
    assert_eq!(deed(Some(&held), &leaf, &same, None, 91), Deed::Issue(Cause::NotBelieved));

    assert_eq!(deed(Some(&held), &leaf, &same, Some("old"), 0), Deed::Keep, "carried out already");
    // Nothing is gained from another one that ends when this one does.
    let over_soon = Offer { ends: held.certificate.ends, ..same.clone() };
    assert_eq!(deed(Some(&held), &leaf, &over_soon, None, 80), Deed::Keep);

    let ordered_otherwise = Leaf { hosts: vec!["a".to_owned(), "b".to_owned()], ..leaf.clone() };
    assert_eq!(deed(Some(&held), &ordered_otherwise, &same, None, 0), Deed::Keep);
    for other in [
        Leaf { hosts: vec!["a".to_owned()], ..leaf.clone() },
        Leaf { addresses: Vec::new(), ..leaf.clone() },
        Leaf { identity: None, ..leaf.clone() },
        Leaf { purposes: vec![Purpose::Client], ..leaf.clone() },
        Leaf { name: "another".to_owned(), ..leaf.clone() },
    ] {
        assert_eq!(deed(Some(&held), &other, &same, None, 0), Deed::Issue(Cause::Other), "{other:?}");
    }
    let mut strange_key = held.clone();
    strange_key.key = authority.issue(&leaf).expect("should be signed").1.pem();
    assert_eq!(deed(Some(&strange_key), &leaf, &same, None, 0), Deed::Issue(Cause::NotBelieved));
}

/// A life of minutes is not over before it begins: the head start for clocks that are behind does not count.
#[test]
fn a_short_life_is_not_due_when_it_is_issued() {
    let authority = authority();
    let short = Leaf { validity: SignedDuration::from_mins(2), ..leaf_of(&wanted(Component::Sidecar)) };
    let held = held(&authority, &short);
    let deed = |seconds: i64| {
        let now = noon() + SignedDuration::from_secs(seconds);
        plan(Some(&held), &Leaf { from: now, ..short.clone() }, &offer(&authority, 1, 1), 66, None, now)
    };
    assert_eq!(deed(0), Deed::Keep);
    assert_eq!(deed(78), Deed::Keep);
    assert_eq!(deed(80), Deed::Issue(Cause::Due));
}

/// An order is remembered with what it was carried out on: trouble with one certificate does not replace another again.
#[test]
fn an_order_is_done_when_every_certificate_is_issued_for_it() {
    let wanted = wanted(Component::Sidecar);
    let held = held(&authority(), &leaf_of(&wanted));
    let before =
        ValkeyCertificateBindingStatus { rotated_for: Some("older".to_owned()), ..Default::default() };
    let told = |unseen: Vec<Component>| {
        let outcome = Outcome { unseen, ..outcome(&wanted, held.clone(), None) };
        status(&outcome, days(1), &before, Some(1), noon()).rotated_for
    };
    assert_eq!(told(Vec::new()).as_deref(), Some("old"));
    assert_eq!(told(vec![Component::Exporter]).as_deref(), Some("older"));
}

#[test]
fn components_are_who_they_are_and_may_do_what_they_do() {
    use Component::{Exporter, NodeClient, Operator, Server, Sidecar};
    let (server, client) = (Purpose::Server, Purpose::Client);
    let sidecar = "spiffe://valkey.local/ns/team/valkeycluster/cache/sidecar/valkey-cache-0-0-0";
    let operator = "spiffe://valkey.local/ns/team/valkeycluster/cache/operator/valkey-cache-0-0-0";
    for (component, name, purposes, identity) in [
        (Server, "cache-server", vec![server], None),
        (NodeClient, "cache-nodeClient", vec![client], None),
        (Exporter, "cache-exporter", vec![client], None),
        (Sidecar, "cache-sidecar", vec![server, client], Some(sidecar)),
        (Operator, "cache-operator", vec![server, client], Some(operator)),
    ] {
        let leaf = leaf_of(&wanted(component));
        let held = held(&authority(), &leaf);
        let is: BTreeSet<Purpose> = purposes.into_iter().collect();
        assert_eq!((leaf.name.as_str(), &held.certificate.purposes), (name, &is));
        assert_eq!(held.certificate.uris, identity.map(str::to_owned).into_iter().collect::<Vec<_>>());
    }
}

fn outcome(wanted: &BoundCertificate, held: Held, trouble: Option<Trouble>) -> Outcome<'_> {
    let bound = vec![Bound { wanted, purpose: BundlePurpose::Mtls, held }];
    Outcome { bound, unseen: Vec::new(), trouble }
}

#[test]
fn what_was_replaced_is_accepted_for_its_time_and_then_forgotten() {
    let (wanted, authority) = (wanted(Component::Sidecar), authority());
    let leaf = leaf_of(&wanted);
    let (one, two) = (held(&authority, &leaf), held(&authority, &leaf));
    let grace = SignedDuration::from_hours(1);
    let told = |held: &Held, before: &ValkeyCertificateBindingStatus, now| {
        status(&outcome(&wanted, held.clone(), None), grace, before, Some(1), now)
    };
    let first = told(&one, &ValkeyCertificateBindingStatus::default(), noon());
    assert_eq!((first.phase, first.deprecated.len()), (Some(BindingPhase::Applied), 0));
    assert_eq!(first.expires_at.as_ref().map(|at| at.0), Some(noon() + days(90)));
    assert_eq!(told(&one, &first, noon() + grace), first, "nothing moves while nothing changes");

    let replaced = told(&two, &first, noon());
    assert_eq!(replaced.phase, Some(BindingPhase::Rotating));
    assert_eq!(replaced.deprecated[0].thumbprint, one.certificate.thumbprint);
    assert_eq!(replaced.deprecated[0].accept_until.0, noon() + grace);
    assert_eq!(told(&two, &replaced, noon() + grace / 2), replaced);
    let over = told(&two, &replaced, noon() + grace);
    assert_eq!((over.phase, over.deprecated.len()), (Some(BindingPhase::Applied), 0));
}

#[test]
fn trouble_is_told_and_what_is_there_stays() {
    let wanted = wanted(Component::Sidecar);
    let held = held(&authority(), &leaf_of(&wanted));
    for (trouble, phase) in [
        (Trouble::WaitsForBundle("words".to_owned()), BindingPhase::WaitingForBundle),
        (Trouble::Wrong(CertificateReason::NameCollision, "words".to_owned()), BindingPhase::Error),
    ] {
        let outcome = outcome(&wanted, held.clone(), Some(trouble));
        let told = status(&outcome, days(1), &ValkeyCertificateBindingStatus::default(), Some(1), noon());
        assert_eq!((told.phase, told.message.as_deref(), told.active.len()), (Some(phase), Some("words"), 1));
        assert_eq!(told.conditions[0].status, "False");
        let unseen = Outcome { bound: Vec::new(), unseen: vec![Component::Sidecar], ..outcome };
        let still = status(&unseen, days(1), &told, Some(1), noon());
        assert_eq!((still.active, still.deprecated.len()), (told.active, 0), "nobody took it away");
    }
}
