//! Everything that is wrong with a certificate, its key, and those who should trust it: told all at once, so that nobody has
//! to mend it twice.

use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use secrecy::{ExposeSecret as _, SecretString};
use snafu::{ResultExt as _, Snafu};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, anchor_from_trusted_cert};

use crate::{Certificate, Purpose, ReadError};

/// What a certificate is wanted for.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// All of them.
    pub purposes: Vec<Purpose>,
    /// DNS names it must be valid for. A name of its own may begin with `*`, which stands for one label.
    pub hosts: Vec<String>,
}

/// One thing that is wrong.
#[derive(Debug, Snafu)]
pub enum Flaw {
    /// No certificate.
    #[snafu(transparent)]
    Certificate {
        /// Why.
        source: ReadError,
    },
    /// Those who should trust it know no authority.
    #[snafu(display("the certificates to trust cannot be used"))]
    Trust {
        /// Why.
        source: ReadError,
    },
    /// Not PEM, or no key.
    #[snafu(display("the key is not readable as PEM"))]
    ReadKey {
        /// Why. It never quotes the key.
        source: pem::Error,
    },
    /// A key of a kind that nobody here can use.
    #[snafu(display("the key cannot be used"))]
    UseKey {
        /// Why. It never quotes the key.
        source: rustls::Error,
    },
    /// The key is another one's.
    #[snafu(display("the key does not belong to the certificate"))]
    Match,
    /// Its time has not come.
    #[snafu(display("the certificate of {name} is not valid before {begins}"))]
    Early {
        /// Whose.
        name: String,
        /// When it is.
        begins: Timestamp,
    },
    /// Its time is over.
    #[snafu(display("the certificate of {name} expired at {ends}"))]
    Expired {
        /// Whose.
        name: String,
        /// When.
        ends: Timestamp,
    },
    /// It may not be used for this.
    #[snafu(display("the certificate is not made for {purpose}"))]
    Use {
        /// For what.
        purpose: Purpose,
    },
    /// Nobody who is trusted signed it.
    #[snafu(display("the certificate is not signed by anybody who is trusted: {why}"))]
    Chain {
        /// In the words of the verifier.
        why: String,
    },
    /// It is for others.
    #[snafu(display("the certificate is not valid for {host}"))]
    Host {
        /// For whom it should be.
        host: String,
    },
}

/// What the first certificate of a chain says, or all that is wrong with it, with its key, or with those who should trust it.
pub fn judge(
    chain: &str,
    key: &SecretString,
    trusted: &str,
    expected: &Expected,
    now: Timestamp,
) -> Result<Certificate, Vec<Flaw>> {
    let mut flaws = Vec::new();
    let public_key = public_key(key).map_err(|flaw| flaws.push(flaw)).ok();
    let trusted = Certificate::read_all(trusted)
        .map_err(|source| flaws.push(Flaw::Trust { source }))
        .unwrap_or_default();
    let (leaf, others) = match Certificate::read_all(chain).map(split) {
        Ok(Some(split)) => split,
        Ok(None) => {
            flaws.push(ReadError::FindCertificate.into());
            return Err(flaws);
        }
        Err(error) => {
            flaws.push(error.into());
            return Err(flaws);
        }
    };
    if public_key.is_some_and(|key| key != leaf.public_key()) {
        flaws.push(Flaw::Match);
    }
    flaws.extend([&leaf].into_iter().chain(&others).filter_map(|one| untimely(one, now)));
    let unfit = expected.purposes.iter().filter(|purpose| !leaf.purposes.contains(purpose));
    flaws.extend(unfit.map(|purpose| Flaw::Use { purpose: *purpose }));
    flaws.extend(distrust(&leaf, &others, &trusted, now).map(|why| Flaw::Chain { why }));
    let strange = expected.hosts.iter().filter(|host| !is_for(&leaf, host));
    flaws.extend(strange.map(|host| Flaw::Host { host: host.clone() }));
    if flaws.is_empty() { Ok(leaf) } else { Err(flaws) }
}

fn split(mut chain: Vec<Certificate>) -> Option<(Certificate, Vec<Certificate>)> {
    if chain.is_empty() {
        return None;
    }
    let others = chain.split_off(1);
    chain.pop().map(|leaf| (leaf, others))
}

fn untimely(one: &Certificate, now: Timestamp) -> Option<Flaw> {
    let name = one.name.clone();
    if now < one.begins {
        return Some(Flaw::Early { name, begins: one.begins });
    }
    (now > one.ends).then_some(Flaw::Expired { name, ends: one.ends })
}

/// Why nobody who is trusted stands behind a certificate. Time is told apart, and so is what it may be used for.
fn distrust(
    leaf: &Certificate,
    others: &[Certificate],
    trusted: &[Certificate],
    now: Timestamp,
) -> Option<String> {
    let anchors: Vec<_> = trusted.iter().filter_map(|one| anchor_from_trusted_cert(one.der()).ok()).collect();
    let others: Vec<CertificateDer<'_>> = others.iter().map(|one| one.der().clone()).collect();
    let end = match EndEntityCert::try_from(leaf.der()) {
        Ok(end) => end,
        Err(error) => return Some(error.to_string()),
    };
    let within = now.clamp(leaf.begins, leaf.ends);
    let within = UnixTime::since_unix_epoch(Duration::from_secs(within.as_second().max(0).unsigned_abs()));
    let signatures = ring::default_provider().signature_verification_algorithms.all;
    let verified = end.verify_for_usage(signatures, &anchors, &others, within, AnyUse, None, None);
    verified.err().map(|error| error.to_string())
}

/// What a certificate is made for is judged on its own, so that one flaw does not hide another.
struct AnyUse;

impl ExtendedKeyUsageValidator for AnyUse {
    fn validate(&self, _purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        Ok(())
    }
}

/// The public half of a key, as certificates have it. Keys of others come in more kinds than ours.
fn public_key(key: &SecretString) -> Result<Vec<u8>, Flaw> {
    let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes()).context(ReadKeySnafu)?;
    let key = ring::sign::any_supported_type(&key).context(UseKeySnafu)?;
    Ok(key.public_key().map(|public| public.to_vec()).unwrap_or_default())
}

/// Whether a name stands in a certificate, as clients read it.
fn is_for(leaf: &Certificate, host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    leaf.hosts.iter().map(|own| own.to_ascii_lowercase()).any(|own| match own.strip_prefix("*.") {
        Some(rest) => host.split_once('.').is_some_and(|(first, others)| !first.is_empty() && others == rest),
        None => own == host,
    })
}
