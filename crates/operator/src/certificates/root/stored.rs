//! The Secret of a root: what it holds, and what becomes of it while the root is replaced.

use std::collections::BTreeMap;

use api::keys;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pki::{Authority, AuthorityError, Certificate, split};
use secrecy::{ExposeSecret as _, SecretString};

use super::super::pem::{CERTIFICATE, KEY, TRUSTED, missing, text};

const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
/// Annotation with the moment of the last step.
const STEP_AT: &str = "valkey.io/step-at";

/// Why there is no root in a Secret.
#[derive(Debug)]
pub(in super::super) enum Unreadable {
    /// These keys hold nothing.
    Missing(Vec<String>),
    /// In words.
    Broken(String),
}

/// Whoever signs, and whom to trust.
pub(in super::super) struct Root {
    pub(in super::super) authority: Authority,
    /// Everybody, the oldest first.
    pub(in super::super) trusted: String,
}

/// The root in a Secret, whoever put it there.
pub(in super::super) fn root(secret: &Secret) -> Result<Root, Unreadable> {
    let lacking = missing(secret, &[CERTIFICATE, KEY]);
    let (Some(certificate), Some(key)) = (text(secret, CERTIFICATE), text(secret, KEY)) else {
        return Err(Unreadable::Missing(lacking));
    };
    let trusted = text(secret, TRUSTED);
    // Below a root that is not there, chains have no end for those who want one.
    let topmost = split(&certificate).last().and_then(|pem| Certificate::read(pem).ok());
    if trusted.is_none() && topmost.is_some_and(|topmost| !topmost.is_root) {
        return Err(Unreadable::Missing(vec![TRUSTED.to_owned()]));
    }
    let authority = Authority::given(&certificate, &SecretString::from(key), trusted.as_deref())
        .map_err(|error| Unreadable::Broken(kit::telemetry::chain(&error)))?;
    let trusted = authority.anchor().to_owned();
    Ok(Root { authority, trusted })
}

/// A root with its key, as text.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    certificate: String,
    key: SecretString,
}

impl Pair {
    fn fresh(name: &str, validity: SignedDuration, now: Timestamp) -> Result<Self, AuthorityError> {
        let root = Authority::root(name, now, validity)?;
        Ok(Self { certificate: root.anchor().to_owned(), key: root.key().pem() })
    }
}

/// What the Secret of a root that the operator makes holds.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    current: Pair,
    /// Known to everybody, and used by nobody yet.
    next: Option<Pair>,
    /// Everybody who is trusted, the oldest first.
    trusted: Vec<String>,
    /// When the last step was taken, if nobody took that away.
    pub(super) since: Option<Timestamp>,
    /// The order that the root was last replaced for.
    pub(super) rotated_for: Option<String>,
}

impl Contents {
    /// What a Secret holds; `None` if that is not all there.
    pub(super) fn read(secret: &Secret) -> Option<Self> {
        let pair = |certificate, key| {
            Some(Pair { certificate: text(secret, certificate)?, key: text(secret, key)?.into() })
        };
        let current = pair(CERTIFICATE, KEY)?;
        let annotation = |key: &str| secret.metadata.annotations.as_ref()?.get(key).cloned();
        let trusted = split(&text(secret, TRUSTED).unwrap_or_else(|| current.certificate.clone()));
        Some(Self {
            current,
            next: pair(NEXT_CERTIFICATE, NEXT_KEY),
            trusted,
            since: annotation(STEP_AT).and_then(|at| at.parse().ok()),
            rotated_for: annotation(keys::ROTATE),
        })
    }

    /// The first root there is.
    pub(super) fn first(
        name: &str,
        validity: SignedDuration,
        order: Option<String>,
        now: Timestamp,
    ) -> Result<Self, AuthorityError> {
        let current = Pair::fresh(name, validity, now)?;
        let trusted = vec![current.certificate.clone()];
        Ok(Self { current, next: None, trusted, since: Some(now), rotated_for: order })
    }

    /// A new root is known to everybody from now on.
    pub(super) fn announced(
        self,
        name: &str,
        validity: SignedDuration,
        order: Option<String>,
        now: Timestamp,
    ) -> Result<Self, AuthorityError> {
        let next = Pair::fresh(name, validity, now)?;
        let mut trusted = self.trusted;
        trusted.push(next.certificate.clone());
        Ok(Self { current: self.current, next: Some(next), trusted, since: Some(now), rotated_for: order })
    }

    /// The new root signs from now on.
    pub(super) fn switched(self, now: Timestamp) -> Self {
        match self.next {
            Some(next) => Self { current: next, next: None, since: Some(now), ..self },
            None => self,
        }
    }

    /// Nobody needs the roots before any more.
    pub(super) fn retired(self, now: Timestamp) -> Self {
        Self { trusted: vec![self.current.certificate.clone()], since: Some(now), ..self }
    }

    /// The last step was just now, for all that is known.
    pub(super) fn dated(self, now: Timestamp) -> Self {
        Self { since: Some(now), ..self }
    }

    /// Another root waits to sign.
    pub(super) fn is_announced(&self) -> bool {
        self.next.is_some()
    }

    /// More than one root is trusted.
    pub(super) fn is_overlapping(&self) -> bool {
        self.trusted.len() > 1
    }

    /// Everybody who is trusted, the oldest first.
    pub(super) fn thumbprints(&self) -> Vec<String> {
        let read = |pem: &String| Certificate::read(pem).ok();
        self.trusted.iter().filter_map(read).map(|one| one.thumbprint).collect()
    }

    /// What the root that signs says of itself.
    pub(super) fn certificate(&self) -> Option<Certificate> {
        Certificate::read(&self.current.certificate).ok()
    }

    /// As a Secret.
    pub(super) fn secret(&self, metadata: ObjectMeta) -> Secret {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let mut data = BTreeMap::from([
            (CERTIFICATE.to_owned(), bytes(&self.current.certificate)),
            (KEY.to_owned(), bytes(self.current.key.expose_secret())),
            (TRUSTED.to_owned(), bytes(&self.trusted.concat())),
        ]);
        if let Some(next) = &self.next {
            data.insert(NEXT_CERTIFICATE.to_owned(), bytes(&next.certificate));
            data.insert(NEXT_KEY.to_owned(), bytes(next.key.expose_secret()));
        }
        let mut metadata = metadata;
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.extend(self.since.iter().map(|since| (STEP_AT.to_owned(), since.to_string())));
        annotations.extend(self.rotated_for.iter().map(|order| (keys::ROTATE.to_owned(), order.clone())));
        Secret { metadata, data: Some(data), type_: Some("Opaque".to_owned()), ..Secret::default() }
    }
}
