//! Whoever signs certificates.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use snafu::{OptionExt as _, ResultExt as _, Snafu, ensure};
use time::OffsetDateTime;

use crate::key::{Key, KeyError, Request};
use crate::lifetime::HEAD_START;
use crate::{Certificate, Expected, Flaw, Leaf, Purpose, ReadError, judge, split};

/// Why nothing is signed.
#[derive(Debug, Snafu)]
pub enum AuthorityError {
    /// Without a key nobody signs.
    #[snafu(display("the authority {name} has no key"))]
    HoldKey {
        /// Whose.
        name: String,
        /// Why.
        source: KeyError,
    },
    /// What was stored is no certificate.
    #[snafu(display("the authority's certificate cannot be used"))]
    ReadAuthority {
        /// Why.
        source: ReadError,
    },
    /// A certificate that may not sign.
    #[snafu(display("{name} is not the certificate of an authority"))]
    Entitle {
        /// Whose.
        name: String,
    },
    /// The key is another one's.
    #[snafu(display("the key does not belong to the certificate of {name}"))]
    MatchKey {
        /// Whose.
        name: String,
    },
    /// A name that cannot stand in a certificate.
    #[snafu(display("{what:?} cannot stand in a certificate"))]
    Write {
        /// Which.
        what: String,
        /// Why.
        source: rcgen::Error,
    },
    /// A time that cannot stand in a certificate.
    #[snafu(display("the times of the certificate of {name} are out of range"))]
    WriteTime {
        /// Whose.
        name: String,
    },
    /// It would be over before it begins: the authority's own time is over, or nothing was asked for.
    #[snafu(display("a certificate of {name} would be over before it begins"))]
    Outlive {
        /// Whose.
        name: String,
    },
    /// The signature failed.
    #[snafu(display("failed to sign the certificate of {name}"))]
    Sign {
        /// Whose.
        name: String,
        /// Why.
        source: rcgen::Error,
    },
}

/// Why an authority is no good for what it is there for.
#[derive(Debug, Snafu)]
pub enum Unfit {
    /// It cannot sign.
    #[snafu(transparent)]
    Signs {
        /// Why.
        source: AuthorityError,
    },
    /// What is signed below it is not believed.
    #[snafu(display("what it signs would not be believed: {}", in_words(flaws)))]
    Believed {
        /// Why, all of it.
        flaws: Vec<Flaw>,
    },
}

/// Everything that is wrong, in one line.
fn in_words(flaws: &[Flaw]) -> String {
    flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// An authority: a key, and a certificate that lets it sign.
#[derive(Debug)]
pub struct Authority {
    key: Key,
    certificate: Certificate,
    /// Its certificate, then those above it, without the root: what must be shown beside anything it signed.
    chain: String,
    /// Signed by itself: for those who trust this authority and nobody above it.
    anchor: String,
}

/// What a certificate says, whoever it is for.
struct Words {
    params: CertificateParams,
    name: String,
}

impl Authority {
    /// One that answers to nobody.
    pub fn root(name: &str, from: Timestamp, validity: SignedDuration) -> Result<Self, AuthorityError> {
        let key = Key::make().context(HoldKeySnafu { name })?;
        let words = Words::of_authority(name, from, ends(from, validity), None)?;
        let anchor = words.signed_by_itself(key.pair())?;
        Self::hold(key, &anchor.clone(), String::new(), anchor)
    }

    /// One below this one, which may sign for those who are no authorities. Beside the certificate that this one signs, it gets
    /// one that it signs itself: those who trust only that are safe from whoever else this one signs for.
    pub fn below(
        &self,
        name: &str,
        from: Timestamp,
        validity: SignedDuration,
    ) -> Result<Self, AuthorityError> {
        let key = Key::make().context(HoldKeySnafu { name })?;
        let words =
            Words::of_authority(name, from, ends(from, validity).min(self.certificate.ends), Some(0))?;
        let anchor = words.signed_by_itself(key.pair())?;
        let signed = words.signed_by(&self.issuer()?, key.pair())?;
        let chain = format!("{signed}{}", self.chain);
        Self::hold(key, &signed, chain, anchor)
    }

    /// One that was stored: its certificate and those above it, its key, and the certificate it signed itself (the first one
    /// for a root).
    pub fn read(chain: &str, key: &SecretString, anchor: &str) -> Result<Self, AuthorityError> {
        let certificate = Certificate::read(chain).context(ReadAuthoritySnafu)?;
        let name = certificate.name.clone();
        let key = Key::read(key).context(HoldKeySnafu { name: &name })?;
        let is_root = Certificate::read(anchor).context(ReadAuthoritySnafu)? == certificate;
        let chain_below = if is_root { String::new() } else { chain.to_owned() };
        Self::hold(key, chain, chain_below, anchor.to_owned())
    }

    /// One that somebody else gave: its certificate and those above it, its key, and whom to trust where that is not the
    /// topmost of them.
    pub fn given(
        certificates: &str,
        key: &SecretString,
        trusted: Option<&str>,
    ) -> Result<Self, AuthorityError> {
        let certificate = Certificate::read(certificates).context(ReadAuthoritySnafu)?;
        let name = certificate.name.clone();
        let key = Key::read(key).context(HoldKeySnafu { name: &name })?;
        ensure!(certificate.is_authority, EntitleSnafu { name: &name });
        ensure!(certificate.public_key() == key.public(), MatchKeySnafu { name });
        let mut chain = Vec::new();
        let mut topmost = String::new();
        for pem in split(certificates) {
            let is_root = Certificate::read(&pem).context(ReadAuthoritySnafu)?.is_root;
            topmost.clone_from(&pem);
            if !is_root {
                chain.push(pem);
            }
        }
        let anchor = trusted.map_or(topmost, |trusted| split(trusted).concat());
        Ok(Self { key, certificate, chain: chain.concat(), anchor })
    }

    /// Whether those who trust this one would believe somebody whom an authority below it signed for: tried, because
    /// nothing that a certificate says of itself is sure to be all that counts.
    pub fn prove(&self, now: Timestamp) -> Result<(), Unfit> {
        let trial = SignedDuration::from_hours(1);
        let name = "trial";
        let below = self.below(name, now, trial)?;
        let leaf = Leaf {
            name: name.to_owned(),
            hosts: vec![name.to_owned()],
            addresses: Vec::new(),
            identity: None,
            purposes: vec![Purpose::Server, Purpose::Client],
            from: now,
            validity: trial,
        };
        let (chain, key) = below.issue(&leaf)?;
        let expected = Expected { purposes: leaf.purposes, hosts: leaf.hosts };
        judge(&chain, &key.pem(), &self.anchor, &expected, now)
            .map(drop)
            .map_err(|flaws| Unfit::Believed { flaws })
    }

    fn hold(key: Key, pem: &str, chain: String, anchor: String) -> Result<Self, AuthorityError> {
        let certificate = Certificate::read(pem).context(ReadAuthoritySnafu)?;
        let name = certificate.name.clone();
        ensure!(certificate.is_authority, EntitleSnafu { name: &name });
        let anchored = Certificate::read(&anchor).context(ReadAuthoritySnafu)?;
        let same = [&certificate, &anchored].iter().all(|one| one.public_key() == key.public());
        ensure!(same, MatchKeySnafu { name });
        Ok(Self { key, certificate, chain, anchor })
    }

    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Its key, to be stored.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What must be shown beside anything it signed; nothing, for a root.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// What those must hold who trust this one.
    pub fn anchor(&self) -> &str {
        &self.anchor
    }

    /// A certificate for a key that is made here: the certificate with all that must be shown beside it, and the key.
    pub fn issue(&self, leaf: &Leaf) -> Result<(String, Key), AuthorityError> {
        let key = Key::make().context(HoldKeySnafu { name: &leaf.name })?;
        let signed = self.sign(leaf, key.pair())?;
        Ok((signed, key))
    }

    /// A certificate for a key that only its holder has.
    pub fn answer(&self, request: &Request, leaf: &Leaf) -> Result<String, AuthorityError> {
        self.sign(leaf, request.public_key())
    }

    fn sign(&self, leaf: &Leaf, public_key: &impl PublicKeyData) -> Result<String, AuthorityError> {
        let words = Words::of_leaf(leaf, self.certificate.ends)?;
        let signed = words.signed_by(&self.issuer()?, public_key)?;
        Ok(format!("{signed}{}", self.chain))
    }

    fn issuer(&self) -> Result<Issuer<'static, &KeyPair>, AuthorityError> {
        let name = &self.certificate.name;
        Issuer::from_ca_cert_der(self.certificate.der(), self.key.pair()).context(SignSnafu { name })
    }
}

impl Words {
    fn of_authority(
        name: &str,
        from: Timestamp,
        ends: Timestamp,
        below: Option<u8>,
    ) -> Result<Self, AuthorityError> {
        let mut words = Self::about(name, from, ends)?;
        let constraint = below.map_or(BasicConstraints::Unconstrained, BasicConstraints::Constrained);
        words.params.is_ca = IsCa::Ca(constraint);
        words.params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(words)
    }

    fn of_leaf(leaf: &Leaf, latest: Timestamp) -> Result<Self, AuthorityError> {
        let mut words = Self::about(&leaf.name, leaf.from, ends(leaf.from, leaf.validity).min(latest))?;
        let params = &mut words.params;
        for host in &leaf.hosts {
            let host = host.as_str().try_into().context(WriteSnafu { what: host })?;
            params.subject_alt_names.push(SanType::DnsName(host));
        }
        params.subject_alt_names.extend(leaf.addresses.iter().map(|address| SanType::IpAddress(*address)));
        if let Some(identity) = &leaf.identity {
            let what = identity.to_string();
            let uri = what.as_str().try_into().context(WriteSnafu { what: &what })?;
            params.subject_alt_names.push(SanType::URI(uri));
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = leaf
            .purposes
            .iter()
            .map(|purpose| match purpose {
                Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
                Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
            })
            .collect();
        Ok(words)
    }

    fn about(name: &str, from: Timestamp, ends: Timestamp) -> Result<Self, AuthorityError> {
        ensure!(from < ends, OutliveSnafu { name });
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.not_before = written(from.saturating_sub(HEAD_START).unwrap_or(from), name)?;
        params.not_after = written(ends, name)?;
        Ok(Self { params, name: name.to_owned() })
    }

    fn signed_by_itself(&self, key: &KeyPair) -> Result<String, AuthorityError> {
        let mut params = self.params.clone();
        params.serial_number = Some(serial(&params, key));
        Ok(params.self_signed(key).context(SignSnafu { name: &self.name })?.pem())
    }

    fn signed_by(
        &self,
        issuer: &Issuer<'_, &KeyPair>,
        public_key: &impl PublicKeyData,
    ) -> Result<String, AuthorityError> {
        let mut params = self.params.clone();
        params.serial_number = Some(serial(&params, public_key));
        Ok(params.signed_by(public_key, issuer).context(SignSnafu { name: &self.name })?.pem())
    }
}

/// Another one for every certificate an authority signs: another key, or another time.
fn serial(params: &CertificateParams, public_key: &impl PublicKeyData) -> SerialNumber {
    let mut digest = Sha256::new();
    digest.update(public_key.der_bytes());
    digest.update(params.not_before.unix_timestamp_nanos().to_be_bytes());
    digest.update(params.not_after.unix_timestamp_nanos().to_be_bytes());
    // Twenty bytes at most, and not negative.
    let mut bytes: Vec<u8> = digest.finalize().iter().take(20).copied().collect();
    bytes.iter_mut().take(1).for_each(|first| *first &= 0x7f);
    SerialNumber::from(bytes)
}

/// A moment as certificates have it: whole seconds, and years of four digits.
fn written(moment: Timestamp, name: &str) -> Result<OffsetDateTime, AuthorityError> {
    let time = OffsetDateTime::from_unix_timestamp(moment.as_second()).ok();
    time.filter(|time| (1950..=9999).contains(&time.year())).context(WriteTimeSnafu { name })
}

/// The end of a life, which nobody can make too long to be a time.
fn ends(from: Timestamp, validity: SignedDuration) -> Timestamp {
    from.saturating_add(validity).unwrap_or(from)
}
