//! The Secret of one certificate: what it holds, and what is to stand in it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pki::Certificate;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::super::pem::{CERTIFICATE, KEY, TRUSTED, text};

/// Tells its holder what it holds, so that the holder can say so.
const NUMBERS: &str = "published.json";

/// Which publications of the bundle the parts come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Numbers {
    pub(super) trusts: u64,
    pub(super) issued_under: u64,
    /// The order that the certificate was issued for, or that was there when it was: it is remembered with what it was
    /// carried out on, so that it is carried out once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rotated_for: Option<String>,
}

/// A certificate with its key and whom its holder trusts.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) chain: String,
    pub(super) key: SecretString,
    pub(super) trusted: String,
    pub(super) numbers: Numbers,
    pub(super) certificate: Certificate,
}

impl Held {
    /// What a Secret holds, if it is a certificate.
    pub(super) fn read(secret: &Secret) -> Option<Self> {
        let chain = text(secret, CERTIFICATE)?;
        let certificate = Certificate::read(&chain).ok()?;
        let numbers = text(secret, NUMBERS).and_then(|text| serde_json::from_str(&text).ok());
        Some(Self {
            key: text(secret, KEY)?.into(),
            trusted: text(secret, TRUSTED)?,
            numbers: numbers.unwrap_or_default(),
            chain,
            certificate,
        })
    }

    /// As a Secret, of the type that Kubernetes has for it.
    pub(super) fn secret(&self, metadata: ObjectMeta) -> Secret {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = BTreeMap::from([
            (CERTIFICATE.to_owned(), bytes(&self.chain)),
            (KEY.to_owned(), bytes(self.key.expose_secret())),
            (TRUSTED.to_owned(), bytes(&self.trusted)),
            (NUMBERS.to_owned(), bytes(&serde_json::to_string(&self.numbers).unwrap_or_default())),
        ]);
        Secret {
            metadata,
            data: Some(data),
            type_: Some("kubernetes.io/tls".to_owned()),
            ..Secret::default()
        }
    }
}

/// Names and addresses in an order of their own: only which ones there are counts.
fn same<T: Ord + Clone>(one: &[T], other: &[T]) -> bool {
    let sorted = |all: &[T]| {
        let mut all = all.to_vec();
        all.sort();
        all
    };
    sorted(one) == sorted(other)
}

/// Whether a certificate says just this of whom it is for.
pub(super) fn is_for(
    certificate: &Certificate,
    hosts: &[String],
    addresses: &[IpAddr],
    uris: &[String],
) -> bool {
    same(&certificate.hosts, hosts)
        && same(&certificate.addresses, addresses)
        && same(&certificate.uris, uris)
}
