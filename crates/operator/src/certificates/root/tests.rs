//! What becomes of a root, as tables; Secrets are read back as they are written.

use api::certificates::{CaPhase, CaSource, Reference, ValkeyCASpec, ValkeyCAStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use pki::Authority;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::own::{found, is_ours, metadata};
use super::plan::{Deed, Follower, plan};
use super::status::status;
use super::stored::Contents;
use super::*;

fn noon() -> Timestamp {
    "2026-11-17T12:00:00Z".parse().expect("should be a time")
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

fn spec() -> ValkeyCASpec {
    serde_json::from_value(json!({"validForDays": 100})).expect("should be a spec")
}

fn first(order: Option<&str>) -> Contents {
    let made = Contents::first("root", hours(2400), order.map(str::to_owned), noon());
    stored_and_read(&made.expect("should be made"))
}

fn stored_and_read(contents: &Contents) -> Contents {
    let secret = contents.secret(metadata("secret", "root"));
    assert!(is_ours(&secret.metadata, "root") && !is_ours(&secret.metadata, "other"));
    Contents::read(&secret).expect("should be read back")
}

fn thumbprint(contents: &Contents) -> String {
    contents.certificate().expect("should be one").thumbprint
}

fn follower(root: &str) -> Follower {
    Follower { name: "team/cache-mtls".to_owned(), root: Some(root.to_owned()) }
}

#[test]
fn a_root_is_made_once_and_rests_until_it_is_due() {
    assert_eq!(plan(&spec(), None, None, &[], noon()).deed, Deed::Make);
    let stored = first(Some("earlier"));
    // An order that was there when the root was made has been carried out with it.
    let resting = plan(&spec(), Some(&stored), Some("earlier"), &[], noon());
    assert_eq!(resting.deed, Deed::Rest);
    let due = resting.wake.expect("should be a moment");
    let life = hours(2400) + SignedDuration::from_mins(5);
    assert!(due > noon() + life * 65 / 100 && due < noon() + life * 67 / 100, "{due}");
    assert_eq!(plan(&spec(), Some(&stored), None, &[], due).deed, Deed::Announce);
}

#[test]
fn a_new_root_is_known_before_it_signs_and_the_old_one_until_everybody_follows() {
    let old = first(None);
    let ordered = |stored: &Contents, followers: &[Follower], now| {
        plan(&spec(), Some(stored), Some("now"), followers, now)
    };
    assert_eq!(ordered(&old, &[], noon()).deed, Deed::Announce);
    let announced = old.clone().announced("root", hours(2400), Some("now".to_owned()), noon());
    let announced = stored_and_read(&announced.expect("should be made"));
    assert_eq!(thumbprint(&announced), thumbprint(&old), "nothing is signed by the new one yet");
    assert_eq!(announced.thumbprints().len(), 2);
    let wait = ordered(&announced, &[], noon() + SignedDuration::from_mins(59));
    assert_eq!((wait.deed, wait.wake), (Deed::Rest, Some(noon() + hours(1))));

    let later = noon() + hours(1);
    assert_eq!(ordered(&announced, &[], later).deed, Deed::Switch);
    let switched = stored_and_read(&announced.switched(later));
    let (before, after) = (thumbprint(&old), thumbprint(&switched));
    assert_ne!(before, after);
    assert_eq!(switched.thumbprints(), [before.clone(), after.clone()]);
    let followers = [follower(&after)];
    let wait = ordered(&switched, &followers, later);
    assert_eq!(
        (wait.deed, wait.wake),
        (Deed::Rest, Some(later + hours(1))),
        "not before the overlap is over"
    );
    let end = later + hours(1);
    assert_eq!(ordered(&switched, &[follower(&before), follower(&after)], end).deed, Deed::Rest);
    let late = found(&switched, &[follower(&before)]);
    let told = status(&late, "root", &ValkeyCAStatus::default(), Some(1), end).message.unwrap_or_default();
    assert!(told.ends_with("; waiting for team/cache-mtls"), "{told}");
    // What is asked for meanwhile is not put off for ever by one that never follows.
    assert_eq!(plan(&spec(), Some(&switched), Some("again"), &[follower(&before)], end).deed, Deed::Announce);
    let unsigned = Follower { name: "team/new".to_owned(), root: None };
    assert_eq!(ordered(&switched, &[unsigned], end).deed, Deed::Rest);
    assert_eq!(ordered(&switched, &followers, end).deed, Deed::Retire);
    let retired = stored_and_read(&switched.retired(end));
    assert_eq!(retired.thumbprints(), [after]);
    assert_eq!(ordered(&retired, &followers, end).deed, Deed::Rest, "the order has been carried out");
}

/// Whoever was away for too long finds a root that signs nothing: another one does at once.
#[test]
fn a_root_that_is_over_is_replaced_at_once() {
    let later = noon() + hours(2500);
    let old = first(None);
    let announced = old.clone().announced("root", hours(2400), None, noon()).expect("should be made");
    for stored in [old, announced] {
        assert_eq!(plan(&spec(), Some(&stored), None, &[], later).deed, Deed::Replace);
    }
}

/// However long it is asked to be, an overlap ends before the root does.
#[test]
fn an_overlap_is_never_longer_than_a_tenth_of_a_life() {
    let spec: ValkeyCASpec = serde_json::from_value(json!({"overlap": "9y"})).expect("should be a spec");
    let announced = first(None).announced("root", hours(2400), None, noon()).expect("should be made");
    let wake = plan(&spec, Some(&announced), None, &[], noon()).wake.expect("should be a moment");
    assert!(wake > noon() + hours(239) && wake < noon() + hours(241), "{wake}");
}

/// Without the moment of the last step nothing is hurried.
#[test]
fn a_moment_that_somebody_took_away_is_no_reason_to_hurry() {
    let announced = first(None).announced("root", hours(2400), None, noon()).expect("should be made");
    let mut secret = announced.secret(metadata("secret", "root"));
    secret.metadata.annotations.as_mut().expect("should be there").remove("valkey.io/step-at");
    let read = Contents::read(&secret).expect("should be read");
    let later = noon() + hours(1000);
    assert_eq!(plan(&spec(), Some(&read), None, &[], later).deed, Deed::Date);
    let mut at_rest = first(None);
    at_rest.since = None;
    assert_eq!(plan(&spec(), Some(&at_rest), None, &[], later).deed, Deed::Date);
    let dated = stored_and_read(&read.dated(later));
    assert_eq!(plan(&spec(), Some(&dated), None, &[], later).wake, Some(later + hours(1)));
}

fn secret(parts: &serde_json::Value) -> Secret {
    let text: std::collections::BTreeMap<String, String> =
        serde_json::from_value(parts.clone()).expect("should be a map");
    let data =
        text.into_iter().map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes()))).collect();
    Secret { data: Some(data), ..Secret::default() }
}

/// What is in the Secret, how many hours later, and what is told: phase, words, missing keys.
type Row = (Option<Secret>, i64, CaPhase, &'static str, &'static [&'static str]);

fn external() -> ValkeyCASpec {
    ValkeyCASpec { source: CaSource::External, ca_cert_secret_ref: Some(Reference::to("vault")), ..spec() }
}

#[test]
fn a_given_root_is_waited_for_tried_and_followed() {
    use secrecy::ExposeSecret as _;
    let root = Authority::root("vault", noon(), hours(100)).expect("should be made");
    let other = Authority::root("other", noon(), hours(100)).expect("should be made");
    let key = |of: &Authority| of.key().pem().expose_secret().to_owned();
    let good = json!({"tls.crt": root.anchor(), "tls.key": key(&root)});
    let below = root.below("below", noon(), hours(50)).expect("should be signed");
    let some = |parts: &serde_json::Value| Some(secret(parts));
    let cases: [Row; 8] = [
        (
            some(&json!({"tls.crt": below.chain(), "tls.key": key(&below)})),
            0,
            CaPhase::Pending,
            "Secret vault lacks ca.crt",
            &["ca.crt"],
        ),
        (None, 0, CaPhase::Pending, "Secret vault does not exist", &["tls.crt", "tls.key"]),
        (
            some(&json!({"tls.crt": root.anchor()})),
            0,
            CaPhase::Pending,
            "Secret vault lacks tls.key",
            &["tls.key"],
        ),
        (
            some(&json!({"tls.crt": "nonsense", "tls.key": key(&root)})),
            0,
            CaPhase::Error,
            "there is no certificate",
            &[],
        ),
        (
            some(&json!({"tls.crt": root.anchor(), "tls.key": key(&other)})),
            0,
            CaPhase::Error,
            "the key does not belong",
            &[],
        ),
        (some(&good), 0, CaPhase::Ready, "valid until", &[]),
        (some(&good), 90, CaPhase::Expiring, "put a new root into the Secret", &[]),
        (some(&good), 101, CaPhase::Error, "over before it begins", &[]),
    ];
    for (live, later, phase, words, missing) in cases {
        let now = noon() + hours(later);
        let seen = given(&external(), live.as_ref(), "vault", now);
        let after = status(&seen.found, "vault", &ValkeyCAStatus::default(), Some(1), now);
        let message = after.message.clone().unwrap_or_default();
        assert_eq!(
            (after.phase, after.missing_keys.as_slice()),
            (Some(phase), missing.map_to_owned().as_slice()),
            "{message}"
        );
        assert!(message.contains(words), "{message}");
        assert!(!message.contains("PRIVATE"), "{message}");
    }
}

trait ToOwnedAll {
    fn map_to_owned(&self) -> Vec<String>;
}

impl ToOwnedAll for &[&str] {
    fn map_to_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

/// What was signed before is still in use, so its figures stay; and nothing moves while nothing changes.
#[test]
fn a_root_that_breaks_keeps_its_figures_and_an_unchanged_one_its_status() {
    let contents = first(None);
    let good = status(&found(&contents, &[]), "root", &ValkeyCAStatus::default(), Some(1), noon());
    assert_eq!(good.last_checked.as_ref().map(|at| at.0), Some(noon()));
    assert_eq!(status(&found(&contents, &[]), "root", &good, Some(1), noon() + hours(5)), good);
    let broken = status(&unusable("broken".to_owned()), "root", &good, Some(1), noon() + hours(6));
    assert_eq!((broken.phase, &broken.thumbprint), (Some(CaPhase::Error), &good.thumbprint));
    assert_eq!(broken.expires_at, good.expires_at);
    assert_eq!(broken.last_checked.map(|at| at.0), Some(noon() + hours(6)));
}
