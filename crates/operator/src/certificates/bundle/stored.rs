//! The Secret with the key of a bundle's authority: what it holds, and what becomes of it while the authority is replaced.
//! Nothing else is remembered, so whoever takes over goes on from here.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pki::rotation::Published;
use pki::{Authority, Certificate, split};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::super::pem::{CERTIFICATE, KEY, TRUSTED, missing, text};

const ANCHOR: &str = "anchor.crt";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const NEXT_ANCHOR: &str = "next-anchor.crt";
const NUMBERS: &str = "published.json";
/// Whom members trust, in the Secret for everybody.
pub(super) const MEMBERS_TRUST: &str = "ca_bundle.pem";

/// What is counted, and where the authorities come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Numbers {
    generation: u64,
    issuing_since: u64,
    /// When that was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    /// Thumbprint of the root above the one who signs.
    root: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_root: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rotated_for: Option<String>,
}

/// An authority below a root.
pub(in super::super) struct Below {
    pub(in super::super) authority: Authority,
    /// Thumbprint of the root.
    pub(in super::super) root: String,
}

impl Below {
    /// By what members know it.
    pub(in super::super) fn anchor(&self) -> String {
        thumbprint(self.authority.anchor())
    }
}

/// What the Secret holds.
pub(in super::super) struct Stored {
    pub(in super::super) issuer: Below,
    /// On its way to become the one who signs.
    pub(super) next: Option<Below>,
    /// Whom members trust, the oldest first.
    trusted: Vec<String>,
    generation: u64,
    issuing_since: u64,
    at: Option<Timestamp>,
    pub(super) rotated_for: Option<String>,
}

impl Stored {
    /// From its Secret; otherwise what is wrong with that.
    pub(in super::super) fn read(secret: &Secret) -> Result<Self, String> {
        let lacking = missing(secret, &[CERTIFICATE, KEY, ANCHOR, TRUSTED, NUMBERS]);
        if !lacking.is_empty() {
            return Err(format!("it lacks {}", lacking.join(", ")));
        }
        let numbers: Numbers = serde_json::from_str(&text(secret, NUMBERS).unwrap_or_default())
            .map_err(|_| format!("{NUMBERS} cannot be read"))?;
        let issuer =
            below(secret, [CERTIFICATE, KEY, ANCHOR], numbers.root)?.ok_or("there is no authority")?;
        let next =
            below(secret, [NEXT_CERTIFICATE, NEXT_KEY, NEXT_ANCHOR], numbers.next_root.unwrap_or_default())?;
        let trusted = split(&text(secret, TRUSTED).unwrap_or_default());
        Ok(Self {
            issuer,
            next,
            trusted,
            generation: numbers.generation,
            issuing_since: numbers.issuing_since,
            at: numbers.at,
            rotated_for: numbers.rotated_for,
        })
    }

    /// The first authority there is. Whoever was trusted before, by what is left of an earlier one, stays trusted.
    pub(super) fn first(issuer: Below, earlier: Earlier, order: Option<String>, now: Timestamp) -> Self {
        let generation = earlier.generation + 1;
        let mut trusted = earlier.trusted;
        trusted.push(issuer.authority.anchor().to_owned());
        Self {
            issuer,
            next: None,
            trusted,
            generation,
            issuing_since: generation,
            at: Some(now),
            rotated_for: order,
        }
    }

    /// Another one is to take over; nobody hears of it before that is published.
    pub(super) fn with_next(self, next: Below, order: Option<String>) -> Self {
        Self { next: Some(next), rotated_for: order, ..self }
    }

    /// What everybody is given.
    pub(super) fn published(&self) -> Published {
        Published {
            generation: self.generation,
            trusted: self.trusted.iter().map(|pem| thumbprint(pem)).collect(),
            issuer: self.issuer.anchor(),
            issuing_since: self.issuing_since,
        }
    }

    /// When what was last published has had this long to reach everybody.
    pub(super) fn settled(&self, settle: SignedDuration) -> Timestamp {
        self.at.map_or(Timestamp::MIN, |at| at.saturating_add(settle).unwrap_or(at))
    }

    /// Nothing that was signed can be used any more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.issuer.authority.certificate().ends <= now
    }

    /// Who is to sign in the end.
    pub(super) fn wanted(&self) -> String {
        self.next.as_ref().unwrap_or(&self.issuer).anchor()
    }

    /// After a step. Who neither signs nor is to sign loses its key; its certificate stays trusted for as long as the step says.
    pub(super) fn after(self, published: &Published, now: Timestamp) -> Self {
        let all = self
            .trusted
            .iter()
            .cloned()
            .chain(self.next.as_ref().map(|next| next.authority.anchor().to_owned()));
        let mut trusted: Vec<String> = Vec::new();
        for pem in all.filter(|pem| published.trusted.contains(&thumbprint(pem))) {
            if !trusted.contains(&pem) {
                trusted.push(pem);
            }
        }
        let is_taking_over = self.next.as_ref().is_some_and(|next| next.anchor() == published.issuer);
        let (issuer, next) = match (is_taking_over, self.next) {
            (true, Some(next)) => (next, None),
            (_, next) => (self.issuer, next),
        };
        Self {
            issuer,
            next,
            trusted,
            generation: published.generation,
            issuing_since: published.issuing_since,
            at: Some(now),
            rotated_for: self.rotated_for,
        }
    }

    /// Another authority is on its way, or the one before is still trusted.
    pub(super) fn is_moving(&self) -> bool {
        self.next.is_some() || self.trusted.len() > 1
    }

    /// Whom members trust, as they get it.
    pub(in super::super) fn trusted(&self) -> String {
        self.trusted.concat()
    }

    /// Counts what was published.
    pub(in super::super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The number under which the one who signs began to.
    pub(in super::super) fn issuing_since(&self) -> u64 {
        self.issuing_since
    }

    /// As the Secret that nobody else reads.
    pub(super) fn secret(&self, metadata: ObjectMeta) -> Secret {
        let numbers = Numbers {
            generation: self.generation,
            issuing_since: self.issuing_since,
            at: self.at,
            root: self.issuer.root.clone(),
            next_root: self.next.as_ref().map(|next| next.root.clone()),
            rotated_for: self.rotated_for.clone(),
        };
        let mut data = BTreeMap::from([
            (TRUSTED.to_owned(), bytes(&self.trusted())),
            (NUMBERS.to_owned(), bytes(&serde_json::to_string(&numbers).unwrap_or_default())),
        ]);
        put(&mut data, [CERTIFICATE, KEY, ANCHOR], &self.issuer);
        if let Some(next) = &self.next {
            put(&mut data, [NEXT_CERTIFICATE, NEXT_KEY, NEXT_ANCHOR], next);
        }
        opaque(metadata, data)
    }

    /// As the Secret for everybody who verifies; `roots` for those who trust them.
    pub(super) fn public(&self, metadata: ObjectMeta, roots: &str) -> Secret {
        let numbers = Earlier { generation: self.generation, trusted: Vec::new() };
        let data = BTreeMap::from([
            (MEMBERS_TRUST.to_owned(), bytes(&self.trusted())),
            (TRUSTED.to_owned(), bytes(roots)),
            (CERTIFICATE.to_owned(), bytes(self.issuer.authority.chain())),
            (NUMBERS.to_owned(), bytes(&serde_json::to_string(&numbers).unwrap_or_default())),
        ]);
        opaque(metadata, data)
    }
}

/// What is left of a bundle whose key is lost: whom members trust, and the last number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Earlier {
    generation: u64,
    #[serde(skip)]
    trusted: Vec<String>,
}

impl Earlier {
    /// With a number that is no smaller: whoever claims to have seen one must not be believed to have seen what comes now.
    pub(super) fn at_least(self, generation: u64) -> Self {
        Self { generation: self.generation.max(generation), ..self }
    }

    /// From the Secret for everybody.
    pub(super) fn read(public: Option<&Secret>) -> Self {
        let Some(public) = public else { return Self::default() };
        let numbers = text(public, NUMBERS).and_then(|text| serde_json::from_str::<Self>(&text).ok());
        let trusted = split(&text(public, MEMBERS_TRUST).unwrap_or_default());
        Self { trusted, ..numbers.unwrap_or_default() }
    }
}

fn below(
    secret: &Secret,
    [certificate, key, anchor]: [&str; 3],
    root: String,
) -> Result<Option<Below>, String> {
    let (Some(chain), Some(key), Some(anchor)) =
        (text(secret, certificate), text(secret, key), text(secret, anchor))
    else {
        return Ok(None);
    };
    let authority = Authority::read(&chain, &SecretString::from(key), &anchor)
        .map_err(|error| kit::telemetry::chain(&error))?;
    Ok(Some(Below { authority, root }))
}

fn put(data: &mut BTreeMap<String, ByteString>, [certificate, key, anchor]: [&str; 3], one: &Below) {
    data.insert(certificate.to_owned(), bytes(one.authority.chain()));
    data.insert(key.to_owned(), bytes(one.authority.key().pem().expose_secret()));
    data.insert(anchor.to_owned(), bytes(one.authority.anchor()));
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

fn opaque(metadata: ObjectMeta, data: BTreeMap<String, ByteString>) -> Secret {
    Secret { metadata, data: Some(data), type_: Some("Opaque".to_owned()), ..Secret::default() }
}

fn thumbprint(pem: &str) -> String {
    Certificate::read(pem).map(|one| one.thumbprint).unwrap_or_default()
}
