//! Which passwords the system users have: from the Secret, from memory, or made now.

use std::collections::BTreeMap;

use api::keys;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use pretty_assertions::assert_eq;
use secrecy::{ExposeSecret as _, SecretString};

use super::super::users::passwords::{Passwords, choose};
use super::super::validate::{Desired, validate};
use super::world::cluster;
use crate::settings::Settings;

/// A Secret with these keys, `key=value` each.
fn secret(pairs: &str) -> Secret {
    let data = pairs.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').expect("should be a pair");
        (key.to_owned(), ByteString(value.as_bytes().to_vec()))
    });
    Secret { data: Some(data.collect()), ..Secret::default() }
}

fn desired(exporter: bool, order: Option<&str>) -> Desired {
    let mut cluster = cluster(&format!("shards: 1\nreplicas: 0\nexporter: {{enabled: {exporter}}}"));
    let order = order.map(|order| (keys::ROTATE_SYSTEM_PASSWORDS.to_owned(), order.to_owned()));
    cluster.metadata.annotations = Some(order.into_iter().collect());
    validate(&cluster, &Settings::default()).expect("should be valid")
}

/// What is chosen, as the Secret would hold it; fresh ones are numbered.
fn chosen(desired: &Desired, stored: Option<&Secret>, before: &Passwords) -> (String, Passwords) {
    let mut number = 0;
    let chosen = choose(desired, stored, before, || {
        number += 1;
        SecretString::from(format!("fresh{number}"))
    });
    let all: BTreeMap<String, &SecretString> = chosen.by_key();
    let all = all.iter().map(|(key, password)| format!("{key}={}", password.expose_secret()));
    (all.collect::<Vec<_>>().join(" "), chosen.clone())
}

const STORED: &str = "_agent=a _operator=o _replication=r";

#[test]
fn the_secret_counts_then_memory_then_something_new() {
    let desired = desired(false, None);
    let nothing = Passwords::default();
    let (_, remembered) =
        chosen(&desired, Some(&secret(&format!("{STORED} _operator.previous=p"))), &nothing);
    for (stored, before, expected) in [
        (None, &nothing, "_agent=fresh3 _operator=fresh1 _replication=fresh2"),
        (Some(STORED), &nothing, STORED),
        (
            Some("_agent=other _operator=o _replication=r"),
            &remembered,
            "_agent=other _operator=o _replication=r",
        ),
        // Deleted as a whole, or in part.
        (None, &remembered, "_agent=a _operator=o _operator.previous=p _replication=r"),
        (
            Some("_agent=a _replication=r"),
            &remembered,
            "_agent=a _operator=o _operator.previous=p _replication=r",
        ),
        (Some("_agent=a _operator=o"), &nothing, "_agent=a _operator=o _replication=fresh1"),
        // An empty one is none.
        (Some("_agent= _operator=o _replication=r"), &nothing, "_agent=fresh1 _operator=o _replication=r"),
        // What servers know is better than what nobody knows.
        (
            Some("_agent=a _operator.previous=p _replication=r"),
            &nothing,
            "_agent=a _operator=p _replication=r",
        ),
        // A rotation in the middle.
        (
            Some("_agent=a _agent.next=b _agent.previous=z _operator=o _replication=r"),
            &remembered,
            "_agent=a _agent.next=b _agent.previous=z _operator=o _replication=r",
        ),
        // Somebody's own keys are left out, and so is who should not be there.
        (Some("_agent=a _exporter=e _operator=o _replication=r mine=x"), &nothing, STORED),
    ] {
        let stored = stored.map(secret);
        assert_eq!(chosen(&desired, stored.as_ref(), before).0, expected, "from {stored:?}");
    }
}

#[test]
fn the_exporter_has_one_if_it_runs() {
    let (with, _) = chosen(&desired(true, None), Some(&secret(STORED)), &Passwords::default());
    assert_eq!(with, "_agent=a _exporter=fresh1 _operator=o _replication=r");
}

#[test]
fn bytes_that_are_no_text_are_no_password() {
    let mut stored = secret(STORED);
    stored.data.get_or_insert_default().insert("_agent".to_owned(), ByteString(vec![0xff, 0xfe]));
    let (all, _) = chosen(&desired(false, None), Some(&stored), &Passwords::default());
    assert_eq!(all, "_agent=fresh1 _operator=o _replication=r");
}

#[test]
fn an_order_is_obeyed_by_making_them_and_noted_with_them() {
    let nothing = Passwords::default();
    let ordered = desired(false, Some("monday"));
    let rotation = |stored: Option<&Secret>, before: &Passwords| chosen(&ordered, stored, before).1.rotation;
    assert_eq!(rotation(None, &nothing).as_deref(), Some("monday"), "they are new");
    assert_eq!(rotation(Some(&secret(STORED)), &nothing), None, "they are old");
    let mut noted = secret(STORED);
    let note = (keys::ROTATE_SYSTEM_PASSWORDS.to_owned(), "sunday".to_owned());
    noted.metadata.annotations = Some([note].into());
    assert_eq!(rotation(Some(&noted), &nothing).as_deref(), Some("sunday"));
    let remembered = chosen(&ordered, Some(&noted), &nothing).1;
    assert_eq!(
        rotation(None, &remembered).as_deref(),
        Some("sunday"),
        "a Secret that comes back says so, too"
    );
}

/// The cache shows the Secret as it was before the operator rotated. What it shows are the older passwords: called rotated, they
/// would never be replaced.
#[test]
fn a_cache_that_is_behind_is_not_called_rotated() {
    let ordered = desired(false, Some("monday"));
    let behind = secret(STORED);
    let mut rotated = secret("_agent=A _operator=O _replication=R");
    let note = (keys::ROTATE_SYSTEM_PASSWORDS.to_owned(), "monday".to_owned());
    rotated.metadata.annotations = Some([note].into());
    let remembered = chosen(&ordered, Some(&rotated), &Passwords::default()).1;
    let (shown, again) = chosen(&ordered, Some(&behind), &remembered);
    assert_eq!((shown.as_str(), again.rotation.as_deref()), (STORED, None));
    // Once it has caught up.
    let (shown, again) = chosen(&ordered, Some(&rotated), &again);
    assert_eq!(shown, "_agent=A _operator=O _replication=R");
    assert_eq!(again.rotation.as_deref(), Some("monday"));
}

#[test]
fn what_is_printed_shows_none() {
    let (_, chosen) = chosen(&desired(true, None), Some(&secret("_operator=hunter2")), &Passwords::default());
    assert!(!format!("{chosen:?}").contains("hunter2"));
}
