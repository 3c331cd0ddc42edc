//! Certificates that are issued, and what those say who look at them.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Certificate, Expected, Flaw, Identity, Key, Leaf, Purpose, Request, Role, judge};
use pretty_assertions::assert_eq;
use secrecy::{ExposeSecret as _, SecretString};

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn noon() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().expect("should be a time")
}

fn identity() -> Identity {
    Identity {
        trust_domain: "valkey.local".to_owned(),
        namespace: "team".to_owned(),
        cluster: "cache".to_owned(),
        role: Role::Sidecar,
        pod: Some("valkey-cache-0-0-0".to_owned()),
    }
}

fn leaf() -> Leaf {
    Leaf {
        name: "cache-sidecar".to_owned(),
        hosts: vec!["valkey-cache.team.svc".to_owned(), "*.valkey-cache.team.svc".to_owned()],
        addresses: vec![
            "10.0.0.7".parse().expect("should be one"),
            "fd00::7".parse().expect("should be one"),
        ],
        identity: Some(identity()),
        purposes: vec![Purpose::Server],
        from: noon(),
        validity: DAY,
    }
}

fn root() -> Authority {
    Authority::root("root", noon(), DAY * 365).expect("should be made")
}

fn below(root: &Authority, name: &str) -> Authority {
    root.below(name, noon(), DAY * 30).expect("should be signed")
}

fn expected() -> Expected {
    Expected { purposes: vec![Purpose::Server], hosts: vec!["valkey-cache.team.svc".to_owned()] }
}

/// What is wrong, each by its first words.
fn flaws(chain: &str, key: &SecretString, trusted: &str, expected: &Expected, now: Timestamp) -> Vec<String> {
    match judge(chain, key, trusted, expected, now) {
        Ok(_) => Vec::new(),
        Err(flaws) => flaws.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_certificate_says_what_it_was_asked_to_say() {
    let (root, now) = (root(), noon());
    let authority = below(&root, "cache");
    let (chain, key) = authority.issue(&leaf()).expect("should be issued");
    let read = Certificate::read(&chain).expect("should be readable");
    assert_eq!(read.name, "cache-sidecar");
    assert_eq!((read.begins, read.ends), (now - SignedDuration::from_mins(5), now + DAY));
    assert_eq!(read.hosts, leaf().hosts);
    assert_eq!(read.addresses, leaf().addresses);
    assert_eq!(read.uris, ["spiffe://valkey.local/ns/team/valkeycluster/cache/sidecar/valkey-cache-0-0-0"]);
    assert_eq!(read.uris[0].parse(), Ok(identity()));
    assert_eq!(read.purposes, BTreeSet::from([Purpose::Server]));
    assert!(!read.is_authority && authority.certificate().is_authority);
    assert_eq!(read.public_key(), key.public());
    assert_eq!(read.thumbprint.len(), 64);
    assert_eq!(format!("{key:?}"), "Key(…)");
}

#[test]
fn whoever_trusts_the_root_or_only_the_cluster_trusts_the_certificate() {
    let root = root();
    let (ours, theirs) = (below(&root, "cache"), below(&root, "other"));
    let (chain, key) = ours.issue(&leaf()).expect("should be issued");
    for trusted in [root.anchor(), ours.anchor(), &format!("{}{}", theirs.anchor(), ours.anchor())] {
        assert_eq!(flaws(&chain, &key.pem(), trusted, &expected(), noon()), Vec::<String>::new());
    }
    // Of the same root, and yet of another cluster.
    let found =
        judge(&chain, &key.pem(), theirs.anchor(), &expected(), noon()).expect_err("should not be trusted");
    assert!(matches!(found.as_slice(), [Flaw::Chain { .. }]), "{found:?}");
    // The cluster's authority may sign for nobody who signs.
    let deeper = ours.below("deeper", noon(), DAY).expect("should be signed");
    let (chain, key) = deeper.issue(&leaf()).expect("should be issued");
    let found =
        judge(&chain, &key.pem(), root.anchor(), &expected(), noon()).expect_err("should not be trusted");
    assert!(matches!(found.as_slice(), [Flaw::Chain { .. }]), "{found:?}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let root = root();
    let authority = below(&root, "cache");
    let (chain, key) = authority.issue(&leaf()).expect("should be issued");
    let other = Key::make().expect("should be made");
    let wanted = Expected {
        purposes: vec![Purpose::Server, Purpose::Client],
        hosts: vec!["a.valkey-cache.team.svc".to_owned(), "a.b.valkey-cache.team.svc".to_owned()],
    };
    let late = noon() + DAY * 2;
    let stranger = Authority::root("stranger", noon(), DAY * 9).expect("should be made");
    let all = flaws(&chain, &other.pem(), stranger.anchor(), &wanted, late);
    let begins = [
        "the key does not belong",
        "the certificate of cache-sidecar expired at 2026-11-17T12:00:00Z",
        "the certificate is not made for clientAuth",
        "the certificate is not signed by anybody who is trusted: UnknownIssuer",
        "the certificate is not valid for a.b.valkey-cache.team.svc",
    ];
    assert_eq!(all.len(), begins.len(), "{all:?}");
    for (flaw, begins) in all.iter().zip(begins) {
        assert!(flaw.starts_with(begins), "{flaw}");
    }

    let (good, broken) = (key.pem(), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----");
    let none = SecretString::from("nothing");
    for (chain, key, trusted, now, begins) in [
        (
            chain.as_str(),
            &good,
            root.anchor(),
            noon() - DAY,
            "the certificate of cache-sidecar is not valid before",
        ),
        (&chain, &none, root.anchor(), noon(), "the key is not readable"),
        (&chain, &good, "", noon(), "the certificate is not signed by anybody"),
        (&chain, &good, broken, noon(), "the certificates to trust cannot be used"),
        ("", &good, root.anchor(), noon(), "there is no certificate"),
        (broken, &good, root.anchor(), noon(), "the certificate cannot be read"),
    ] {
        let all = flaws(chain, key, trusted, &expected(), now);
        assert!(all.iter().any(|flaw| flaw.starts_with(begins)), "{begins}: {all:?}");
    }
}

#[test]
fn a_request_gets_what_the_authority_says_and_nothing_that_it_asks_for() {
    let (root, key) = (root(), Key::make().expect("should be made"));
    let authority = below(&root, "cache");
    let mut wishes = rcgen::CertificateParams::new(vec!["evil.example".to_owned()]).expect("should be names");
    wishes.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pair = rcgen::KeyPair::from_pem(key.pem().expose_secret()).expect("should be a key");
    let greedy = wishes.serialize_request(&pair).and_then(|request| request.pem()).expect("should be signed");
    for request in [key.request().expect("should be signed"), greedy.clone()] {
        let request = Request::read(&request).expect("should be a request");
        let chain = authority.answer(&request, &leaf()).expect("should be issued");
        let read = judge(&chain, &key.pem(), root.anchor(), &expected(), noon()).expect("should be good");
        assert_eq!((read.hosts, read.is_authority), (leaf().hosts, false));
    }
    // Somebody else's key, without its holder.
    let other = Key::make().expect("should be made").request().expect("should be signed");
    let lines = |text: &str| text.lines().map(ToOwned::to_owned).collect::<Vec<_>>();
    let (mut forged, donor) = (lines(&greedy), lines(&other));
    let last = forged.len() - 2;
    forged[last] = donor[donor.len() - 2].clone();
    assert!(Request::read(&forged.join("\n")).is_err());
    assert!(Request::read("nothing").is_err());
}

#[test]
fn nothing_outlives_its_authority_and_nothing_is_over_before_it_begins() {
    let root = Authority::root("root", noon(), DAY * 2).expect("should be made");
    let authority = root.below("cache", noon() + DAY, DAY * 30).expect("should be signed");
    assert_eq!(authority.certificate().ends, noon() + DAY * 2);
    let long = Leaf { from: noon() + DAY, validity: DAY * 30, ..leaf() };
    let (chain, _) = authority.issue(&long).expect("should be issued");
    assert_eq!(Certificate::read(&chain).expect("should be readable").ends, noon() + DAY * 2);
    // Whatever somebody writes, nobody falls over it.
    for absurd in [SignedDuration::MAX, SignedDuration::MIN, SignedDuration::ZERO] {
        let _ = authority.issue(&Leaf { validity: absurd, ..leaf() });
        let _ = Authority::root("absurd", noon(), absurd);
    }
    let late = Leaf { from: noon() + DAY * 2, ..leaf() };
    let error = authority.issue(&late).expect_err("should be over");
    assert_eq!(error.to_string(), "a certificate of cache-sidecar would be over before it begins");
}

#[test]
fn an_authority_that_was_stored_signs_on() {
    let root = root();
    let again = Authority::read(root.anchor(), &root.key().pem(), root.anchor()).expect("should be read");
    let authority = below(&again, "cache");
    let stored = Authority::read(authority.chain(), &authority.key().pem(), authority.anchor());
    let stored = stored.expect("should be read");
    assert_eq!(stored.certificate(), authority.certificate());
    let (chain, key) = stored.issue(&leaf()).expect("should be issued");
    for trusted in [root.anchor(), authority.anchor()] {
        assert_eq!(flaws(&chain, &key.pem(), trusted, &expected(), noon()), Vec::<String>::new());
    }
    let wrong =
        Authority::read(authority.chain(), &root.key().pem(), authority.anchor()).expect_err("another key");
    assert_eq!(wrong.to_string(), "the key does not belong to the certificate of cache");
    let wrong = Authority::read(&chain, &key.pem(), &chain).expect_err("a leaf");
    assert_eq!(wrong.to_string(), "cache-sidecar is not the certificate of an authority");
}

/// One number for each certificate, whether the key or only the time is another.
#[test]
fn serial_numbers_differ() {
    let root = root();
    let key = Key::make().expect("should be made");
    let request = Request::read(&key.request().expect("should be signed")).expect("should be a request");
    let of = |seconds: i64| {
        let leaf = Leaf { from: noon() + SignedDuration::from_secs(seconds), ..leaf() };
        let chain = root.answer(&request, &leaf).expect("should be issued");
        let certificate = Certificate::read(&chain).expect("should be readable");
        let (_, read) = x509_parser::parse_x509_certificate(certificate.der()).expect("should be readable");
        read.raw_serial().to_vec()
    };
    assert_eq!((0..10).map(of).collect::<BTreeSet<_>>().len(), 10);
}
