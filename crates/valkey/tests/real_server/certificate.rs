//! Certificates as people give them: good ones have a name to verify by, bad ones are found before a server has them.

use std::time::Duration;

use crate::support::certificates::Authority;
use rcgen::ExtendedKeyUsagePurpose::ServerAuth;
use secrecy::SecretString;
use valkey::client::certificate::{CertificateError, check_certificate, name_in_certificate};

/// Certificates made by tests are valid from 1975 to 4096.
const NOW: Duration = Duration::from_hours(500_000);

fn check(chain: &str, key: &str, ca: &str) -> Result<String, CertificateError> {
    check_certificate(chain, &SecretString::from(key), ca, NOW)
}

#[test]
fn a_good_certificate_has_a_name_to_verify_by() {
    let authority = Authority::new();
    for (names, verified_by) in [
        (&["127.0.0.1", "node-0.valkey.svc", "other"][..], "node-0.valkey.svc"),
        (&["*.valkey-shop.default.svc"][..], "any.valkey-shop.default.svc"),
    ] {
        let (certificate, key) = authority.issue(names, ServerAuth);
        assert_eq!(check(&certificate, &key, &authority.pem()).expect("should be good"), verified_by);
        assert_eq!(name_in_certificate(&certificate).expect("should have a name"), verified_by);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (good, key) = authority.issue(&["a.svc"], ServerAuth);
    let (_, other_key) = authority.issue(&["a.svc"], ServerAuth);
    let (nameless, nameless_key) = authority.issue(&["10.0.0.1"], ServerAuth);
    let ca = authority.pem();
    for (chain, key, ca, words) in [
        ("", key.as_str(), ca.as_str(), "no certificate"),
        ("garbage", &key, &ca, "no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", &key, &ca, "cannot be read"),
        (&nameless, &nameless_key, &ca, "not valid for any DNS name"),
        (&good, "garbage", &ca, "key is not readable"),
        (&good, &other_key, &ca, "does not belong"),
        (&good, &key, "", "no CA certificate"),
        (&good, &key, &other.pem(), "not trusted by its own CA"),
    ] {
        let error = check(chain, key, ca).expect_err(words);
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    let long_after = Duration::from_hours(25_000_000);
    let late = check_certificate(&good, &SecretString::from(key), &ca, long_after).expect_err("should end");
    assert!(matches!(late, CertificateError::Verify { .. }), "{late}");
}
