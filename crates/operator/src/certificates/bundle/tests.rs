//! What becomes of a bundle's authority. Whoever holds something of it goes on talking, whatever is late.

use std::collections::{BTreeMap, BTreeSet};

use api::certificates::ValkeyCertificateBundleSpec;
use jiff::{SignedDuration, Timestamp};
use pki::rotation::Proof;
use pki::{Authority, Certificate, Expected, Leaf, Purpose, judge};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use secrecy::SecretString;
use serde_json::json;

use super::super::root::Root;
use super::act::{advance, roots};
use super::observe::Observed;
use super::plan::{Asked, Deed, plan};
use super::status::status;
use super::*;

fn noon() -> Timestamp {
    "2026-11-17T12:00:00Z".parse().expect("should be a time")
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn root(name: &str) -> Root {
    let authority = Authority::root(name, noon(), days(1000)).expect("should be made");
    let trusted = authority.anchor().to_owned();
    Root { authority, trusted }
}

fn bundle(spec: &serde_json::Value) -> ValkeyCertificateBundle {
    let mut all = json!({"clusterRef": {"name": "cache"}});
    all.as_object_mut().expect("should be one").extend(spec.as_object().expect("should be one").clone());
    let spec: ValkeyCertificateBundleSpec = serde_json::from_value(all).expect("should be a spec");
    let mut bundle = ValkeyCertificateBundle::new("cache-mtls", spec);
    bundle.metadata.namespace = Some("team".to_owned());
    bundle.metadata.uid = Some("uid".to_owned());
    bundle
}

fn place() -> Place {
    Place::of(&bundle(&json!({})), "cache").expect("should have a name")
}

/// A bundle with its Secrets: every pass reads what the one before wrote.
struct World {
    bundle: ValkeyCertificateBundle,
    observed: Observed,
    order: Option<String>,
    now: Timestamp,
}

impl World {
    fn new(spec: &serde_json::Value) -> Self {
        let observed = Observed { root: Ok(root("root")), key: None, public: None, parties: BTreeMap::new() };
        Self { bundle: bundle(spec), observed, order: None, now: noon() }
    }

    fn stored(&self) -> Option<Stored> {
        self.observed.key.as_deref().map(|secret| Stored::read(secret).expect("should be read"))
    }

    fn deed(&self) -> Deed {
        let asked = Asked {
            policy: &self.bundle.spec.rotation_policy,
            order: self.order.as_deref(),
            root: self.observed.root.as_ref().ok().map(|root| root.authority.certificate()),
            validity: days(i64::from(self.bundle.spec.valid_for_days)),
        };
        plan(&asked, self.stored().as_ref(), &self.observed.parties, self.now)
    }

    /// One pass, a while after the last one; whether something was written.
    fn pass(&mut self) -> bool {
        self.now += SignedDuration::from_mins(3);
        let deed = self.deed();
        let is_step = matches!(deed, Deed::Begin | Deed::Renew | Deed::Publish(_));
        let next = advance(deed, self.stored(), &self.bundle, &self.observed, self.order.clone(), self.now)
            .expect("should be signed");
        if let (true, Some(next)) = (is_step, next) {
            self.observed.key = Some(Arc::new(next.secret(place().owned("key"))));
            self.publish(&next);
        }
        is_step
    }

    fn publish(&mut self, stored: &Stored) {
        let roots = roots(stored, &self.observed);
        self.observed.public = Some(Arc::new(stored.public(place().owned("public"), &roots)));
    }

    /// Thumbprints of the roots that others are told to trust.
    fn roots(&mut self) -> Vec<String> {
        let stored = self.stored().expect("should be one");
        self.publish(&stored);
        let public = self.observed.public.as_deref().expect("should be there");
        let told = super::super::pem::text(public, "ca.crt").unwrap_or_default();
        Certificate::read_all(&told).expect("should be read").into_iter().map(|one| one.thumbprint).collect()
    }

    fn settle(&mut self) -> usize {
        (0..20).take_while(|_| self.pass()).count()
    }

    fn trusted(&self) -> Vec<String> {
        self.stored().map(|stored| stored.published().trusted).unwrap_or_default()
    }

    fn status(&self) -> ValkeyCertificateBundleStatus {
        let (stored, nobody) = (self.stored().expect("should be one"), BTreeSet::new());
        let found = Found::Signs { stored: &stored, waits_for: &nobody, hint: None };
        status(&found, &ValkeyCertificateBundleStatus::default(), Some(1), self.now)
    }
}

#[test]
fn an_authority_is_made_once_below_its_root_and_rests() {
    let mut world = World::new(&json!({}));
    assert_eq!((world.settle(), world.deed()), (1, Deed::Rest));
    let status = world.status();
    assert_eq!(status.phase, Some(BundlePhase::Issued));
    assert_eq!(
        (status.chain, status.published, status.trusted.len()),
        (vec!["cache mtls".to_owned()], Some(1), 1)
    );
    let root = world.observed.root.as_ref().ok().map(|root| root.authority.certificate().thumbprint.clone());
    assert_eq!(status.ca_thumbprint, root);
    world.observed.root = Err("it is gone".to_owned());
    assert_eq!(world.deed(), Deed::Rest, "nobody needs the root while the authority lasts");
}

#[test]
fn without_a_root_nothing_begins() {
    let mut world = World::new(&json!({}));
    world.observed.root = Err("ValkeyCA root does not exist".to_owned());
    assert_eq!((world.deed(), world.settle()), (Deed::WaitForRoot, 0));
}

#[test]
fn time_an_order_and_another_root_replace_an_authority_in_three_steps() {
    type Change = fn(&mut World);
    let cases: [(&str, serde_json::Value, Change, usize); 7] = [
        ("time", json!({}), |world| world.now = noon() + days(250), 3),
        ("not yet", json!({}), |world| world.now = noon() + days(230), 0),
        (
            "days before the end",
            json!({"rotationPolicy": {"renewBeforeDays": 200}}),
            |world| world.now = noon() + days(170),
            3,
        ),
        ("an order", json!({}), |world| world.order = Some("now".to_owned()), 3),
        (
            "an order, although it is not to rotate",
            json!({"rotationPolicy": {"autoRotate": false}}),
            |world| world.order = Some("now".to_owned()),
            3,
        ),
        ("another root", json!({}), |world| world.observed.root = Ok(root("new")), 3),
        (
            "another root, and it is not to rotate",
            json!({"rotationPolicy": {"autoRotate": false}}),
            |world| world.observed.root = Ok(root("new")),
            0,
        ),
    ];
    for (name, spec, change, steps) in cases {
        let mut world = World::new(&spec);
        world.settle();
        let before = world.trusted();
        change(&mut world);
        assert_eq!(world.settle(), steps, "{name}");
        let after = world.trusted();
        assert_eq!((after.len(), after != before), (1, steps > 0), "{name}");
        assert_eq!(world.settle(), 0, "{name}: once is enough");
        assert_eq!(world.status().phase, Some(BundlePhase::Issued), "{name}");
    }
}

/// Whoever takes over in the middle, with nothing but the Secret, goes on where it was; those who are late are waited for.
#[test]
fn nobody_goes_on_before_everybody_has_shown_the_last_step() {
    let mut world = World::new(&json!({}));
    world.settle();
    world.order = Some("now".to_owned());
    let party = |trusts, shows| BTreeMap::from([("cache-0-0/sidecar".to_owned(), Proof { trusts, shows })]);
    world.observed.parties = party(1, 1);
    assert!(world.pass(), "the new one is trusted from now on");
    let waits = Deed::WaitFor(BTreeSet::from(["cache-0-0/sidecar".to_owned()]));
    assert_eq!((world.deed(), world.trusted().len()), (waits.clone(), 2));
    let shown = world.status().message.unwrap_or_default();
    assert!(shown.starts_with("step 1 of 3"), "{shown}");
    world.observed.parties = party(2, 1);
    assert!(world.pass(), "it trusts both, so the new one may sign");
    assert_eq!(world.deed(), waits);
    let shown = world.status().message.unwrap_or_default();
    assert!(shown.starts_with("step 2 of 3"), "{shown}");
    world.observed.parties = party(3, 3);
    assert!(world.pass());
    assert_eq!(world.trusted().len(), 1);
    world.observed.parties = party(4, 3);
    assert_eq!(world.deed(), Deed::Rest);
}

/// Whoever trusts the root believes what members show, whatever root that is below.
#[test]
fn a_root_that_is_replaced_stays_known_for_as_long_as_it_is_shown() {
    let thumbprint = |root: &Root| root.authority.certificate().thumbprint.clone();
    for auto_rotate in [true, false] {
        let mut world = World::new(&json!({"rotationPolicy": {"autoRotate": auto_rotate}}));
        let (old, new) = (root("old"), root("new"));
        let (before, after) = (thumbprint(&old), thumbprint(&new));
        let end = if auto_rotate { vec![after.clone()] } else { vec![before.clone(), after.clone()] };
        world.observed.root = Ok(old);
        world.settle();
        assert_eq!(world.roots(), std::slice::from_ref(&before));
        world.observed.root = Ok(new);
        assert_eq!(world.roots(), [before.clone(), after.clone()], "nothing is signed below the new one yet");
        let party =
            |trusts, shows| BTreeMap::from([("cache-0-0/server".to_owned(), Proof { trusts, shows })]);
        for (trusts, shows) in [(1, 1), (2, 1), (2, 2)] {
            world.observed.parties = party(trusts, shows);
            world.pass();
            assert_eq!(
                world.roots(),
                [before.clone(), after.clone()],
                "somebody shows what the old one signed"
            );
        }
        world.observed.parties = party(9, 9);
        world.settle();
        assert_eq!(world.roots(), end);
        world.observed.root = Err("it is gone".to_owned());
        assert_eq!(world.roots(), end, "nobody takes them away");
    }
}

/// Below a root that is over soon, another authority is over as soon.
#[test]
fn time_alone_makes_no_authority_that_lasts_no_longer() {
    let mut world = World::new(&json!({"validForDays": 3650, "rotationPolicy": {"renewBeforeDays": 900}}));
    world.settle();
    world.now = noon() + days(200);
    assert_eq!(world.deed(), Deed::Rest);
    let later = Authority::root("root", noon(), days(5000)).expect("should be made");
    let trusted = later.anchor().to_owned();
    world.observed.root = Ok(Root { authority: later, trusted });
    assert_eq!(world.deed(), Deed::Renew);
}

/// A number that somebody claims to have seen is not given again.
#[test]
fn numbers_go_on_where_somebody_has_seen_them() {
    let mut world = World::new(&json!({}));
    let claims = Proof { trusts: 7, shows: 5 };
    world.observed.parties = BTreeMap::from([("cache-0-0/sidecar".to_owned(), claims)]);
    world.pass();
    assert_eq!(world.stored().expect("should be one").generation(), 8);
}

#[test]
fn an_authority_that_is_over_is_not_called_ready() {
    let mut world = World::new(&json!({}));
    world.settle();
    world.now = noon() + days(366);
    let status = world.status();
    assert_eq!((status.phase, status.conditions[0].status.as_str()), (Some(BundlePhase::Error), "False"));
}

/// A step lasts for as long as Secrets take to reach the pods, whatever stands in the status already.
#[test]
fn no_step_follows_before_the_last_one_has_settled() {
    let mut world = World::new(&json!({}));
    world.settle();
    world.order = Some("now".to_owned());
    world.observed.parties =
        BTreeMap::from([("cache-0-0/sidecar".to_owned(), Proof { trusts: 9, shows: 1 })]);
    world.pass();
    let published = world.now;
    assert_eq!(world.deed(), Deed::Settle);
    world.now = published + SignedDuration::from_secs(119);
    assert_eq!(world.deed(), Deed::Settle);
    world.now = published + SignedDuration::from_secs(120);
    assert!(matches!(world.deed(), Deed::Publish(_)));
}

/// Whoever was away for too long finds nobody who talks: there is nothing to wait for.
#[test]
fn an_authority_that_is_over_is_replaced_although_nobody_has_shown_anything() {
    for order in [None, Some("now".to_owned())] {
        let mut world = World::new(&json!({}));
        world.settle();
        let before = world.trusted();
        let stuck = BTreeMap::from([("cache-0-0/sidecar".to_owned(), Proof { trusts: 1, shows: 1 })]);
        world.observed.parties = stuck;
        world.order = order;
        world.pass();
        world.now = noon() + days(400);
        world.settle();
        let stored = world.stored().expect("should be one");
        assert!(!stored.is_over(world.now) && !before.contains(&stored.issuer.anchor()));
        assert!(matches!(world.deed(), Deed::WaitFor(_)), "from here on as always");
        world.observed.parties =
            BTreeMap::from([("cache-0-0/sidecar".to_owned(), Proof { trusts: 99, shows: 99 })]);
        world.settle();
        assert_eq!(world.trusted().len(), 1);
    }
}

/// An authority that somebody gave is not among those who are trusted, but below one of them.
#[test]
fn a_company_root_that_is_replaced_is_forgotten_in_the_end() {
    let company = |name: &str| {
        let above = Authority::root(name, noon(), days(1000)).expect("should be made");
        Root { authority: root("between").authority, trusted: above.anchor().to_owned() }
    };
    let mut world = World::new(&json!({}));
    world.observed.root = Ok(company("old"));
    world.settle();
    let before = world.roots();
    world.observed.root = Ok(company("new"));
    world.settle();
    let after = world.roots();
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_ne!(before, after);
}

/// The key is lost, and nobody who was trusted is forgotten.
#[test]
fn an_authority_whose_key_is_lost_begins_anew_beside_the_one_before() {
    let mut world = World::new(&json!({}));
    world.settle();
    let before = world.trusted();
    world.observed.key = None;
    assert_eq!(world.deed(), Deed::Begin);
    world.pass();
    let after = world.trusted();
    assert_eq!((after.len(), &after[0]), (2, &before[0]));
    let stored = world.stored().expect("should be one");
    assert_eq!((stored.generation(), stored.issuing_since()), (2, 2));
    world.settle();
    assert_eq!(world.trusted(), [after[1].clone()]);
}

#[test]
fn a_secret_that_lacks_something_is_no_authority() {
    let mut world = World::new(&json!({}));
    world.settle();
    let whole = world.observed.key.clone().expect("should be one");
    for key in ["tls.crt", "tls.key", "anchor.crt", "ca.crt", "published.json"] {
        let mut secret = (*whole).clone();
        secret.data.as_mut().expect("should be there").remove(key);
        let why = Stored::read(&secret).err().unwrap_or_default();
        assert_eq!(why, format!("it lacks {key}"));
    }
}

/// Somebody who holds a certificate.
struct Party {
    chain: String,
    key: SecretString,
    trusted: String,
    proof: Proof,
}

impl Party {
    fn look(before: Option<Self>, stored: &Stored, now: Timestamp) -> Self {
        let (trusted, trusts) = (stored.trusted(), stored.generation());
        if let Some(before) = before.filter(|before| before.proof.shows >= stored.issuing_since()) {
            return Self { trusted, proof: Proof { trusts, ..before.proof }, ..before };
        }
        let leaf = Leaf {
            name: "party".to_owned(),
            hosts: Vec::new(),
            addresses: Vec::new(),
            identity: None,
            purposes: vec![Purpose::Server, Purpose::Client],
            from: now,
            validity: days(30),
        };
        let (chain, key) = stored.issuer.authority.issue(&leaf).expect("should be signed");
        Self { chain, key: key.pem(), trusted, proof: Proof { trusts, shows: trusts } }
    }

    fn believes(&self, other: &Self, now: Timestamp) -> bool {
        let expected = Expected { purposes: vec![Purpose::Client], hosts: Vec::new() };
        judge(&other.chain, &other.key, &self.trusted, &expected, now).is_ok()
    }
}

#[derive(Clone, Debug)]
enum Event {
    Pass,
    Look(usize),
    Order,
    Root,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Pass),
        6 => (0..3_usize).prop_map(Event::Look),
        1 => Just(Event::Order),
        1 => Just(Event::Root),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Passes, parties that look whenever they do, orders and other roots, in any order: everybody always believes everybody.
    #[test]
    fn everybody_goes_on_talking_whatever_is_late(events in proptest::collection::vec(event(), 1..40)) {
        let mut world = World::new(&json!({}));
        world.settle();
        let stored = world.stored().expect("should be one");
        let mut parties: Vec<Party> = (0..3).map(|_| Party::look(None, &stored, world.now)).collect();
        for (number, event) in events.into_iter().enumerate() {
            match event {
                Event::Pass => {
                    world.observed.parties =
                        parties.iter().enumerate().map(|(index, party)| (index.to_string(), party.proof)).collect();
                    world.pass();
                }
                Event::Look(index) => {
                    let stored = world.stored().expect("should be one");
                    let before = parties.remove(index);
                    parties.insert(index, Party::look(Some(before), &stored, world.now));
                }
                Event::Order => world.order = Some(number.to_string()),
                Event::Root => world.observed.root = Ok(root("another")),
            }
            for one in &parties {
                for other in &parties {
                    prop_assert!(one.believes(other, world.now), "after event {number}");
                }
            }
        }
    }
}
