//! Authorities that somebody else made.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on must end")]

use jiff::{SignedDuration, Timestamp};
use pki::{Authority, AuthorityError, Certificate, Leaf, Purpose};

fn now() -> Timestamp {
    "2026-11-17T12:00:00Z".parse().unwrap()
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn root(name: &str) -> Authority {
    Authority::root(name, now(), days(100)).unwrap()
}

#[test]
fn a_given_root_signs_and_is_trusted() {
    let root = root("the company's");
    let given = Authority::given(root.anchor(), &root.key().pem(), None).unwrap();
    assert_eq!((given.chain(), given.anchor()), ("", root.anchor()));
    given.prove(now()).unwrap();
}

/// What stands in `ca.crt` is trusted, with whatever stands around it.
#[test]
fn more_may_be_trusted_than_the_root_that_signs() {
    let (old, new) = (root("old"), root("new"));
    let both = format!("# two of them\n{}\n{}", old.anchor(), new.anchor());
    let given = Authority::given(new.anchor(), &new.key().pem(), Some(&both)).unwrap();
    assert_eq!(given.anchor(), format!("{}{}", old.anchor(), new.anchor()));
    given.prove(now()).unwrap();
    let stranger = root("stranger");
    let given = Authority::given(new.anchor(), &new.key().pem(), Some(stranger.anchor())).unwrap();
    let why = given.prove(now()).unwrap_err().to_string();
    assert!(why.contains("not signed by anybody who is trusted"), "{why}");
}

/// An authority below a root may sign only for those who sign nothing, unless somebody says otherwise.
#[test]
fn an_authority_that_may_not_sign_for_authorities_is_found_by_trying() {
    let root = root("root");
    let below = root.below("below", now(), days(10)).unwrap();
    let given = Authority::given(below.chain(), &below.key().pem(), Some(root.anchor())).unwrap();
    assert_eq!((given.chain(), given.anchor()), (below.chain(), root.anchor()));
    let why = given.prove(now()).unwrap_err().to_string();
    assert!(why.contains("PathLenConstraintViolated"), "{why}");
}

#[test]
fn one_whose_time_is_over_signs_nothing() {
    let root = root("root");
    let given = Authority::given(root.anchor(), &root.key().pem(), None).unwrap();
    let why = given.prove(now() + days(101)).unwrap_err().to_string();
    assert!(why.contains("over before it begins"), "{why}");
}

#[test]
fn another_key_and_a_certificate_that_may_not_sign_are_refused() {
    let (one, other) = (root("one"), root("other"));
    let error = Authority::given(one.anchor(), &other.key().pem(), None).unwrap_err();
    assert!(matches!(error, AuthorityError::MatchKey { .. }), "{error}");
    let leaf = Leaf {
        name: "leaf".to_owned(),
        hosts: Vec::new(),
        addresses: Vec::new(),
        identity: None,
        purposes: vec![Purpose::Server],
        from: now(),
        validity: days(1),
    };
    let (chain, key) = one.issue(&leaf).unwrap();
    let error = Authority::given(&chain, &key.pem(), None).unwrap_err();
    assert!(matches!(error, AuthorityError::Entitle { .. }), "{error}");
}

#[test]
fn a_text_is_split_into_its_certificates() {
    let (one, two) = (root("one"), root("two"));
    let text =
        format!("words\n{}more words\n{}-----BEGIN CERTIFICATE-----\ncut off", one.anchor(), two.anchor());
    let split = pki::split(&text);
    let names: Vec<String> = split.iter().map(|pem| Certificate::read(pem).unwrap().name).collect();
    assert_eq!(names, ["one", "two"]);
}

/// Made with openssl for this test, each key in both forms that it writes: `openssl ecparam -genkey`, `openssl genrsa
/// -traditional`, `openssl pkcs8 -topk8`, `openssl req -x509`.
#[test]
fn roots_of_others_sign_with_keys_of_other_kinds_and_forms() {
    let of = [
        (include_str!("given/p256.crt"), include_str!("given/p256.traditional.key")),
        (include_str!("given/p256.crt"), include_str!("given/p256.key")),
        (include_str!("given/p384.crt"), include_str!("given/p384.traditional.key")),
        (include_str!("given/p384.crt"), include_str!("given/p384.key")),
        (include_str!("given/rsa.crt"), include_str!("given/rsa.traditional.key")),
        (include_str!("given/rsa.crt"), include_str!("given/rsa.key")),
    ];
    for (certificate, key) in of {
        let given = Authority::given(certificate, &key.to_owned().into(), None).unwrap();
        given.prove(Certificate::read(certificate).unwrap().begins + days(1)).unwrap();
    }
}

#[test]
fn a_key_that_is_none_is_told_apart_from_one_that_cannot_sign() {
    let root = root("root");
    let refused = |key: &str| Authority::given(root.anchor(), &key.to_owned().into(), None).unwrap_err();
    let said = |key: &str| {
        let error = refused(key);
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(!format!("{error} {source}").contains("MIIB"), "nothing of a key is repeated");
        source
    };
    assert_eq!(said("nonsense"), "the key is not readable as PEM");
    let strange = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n";
    assert!(said(strange).starts_with("the key is none that can be used"));
}
