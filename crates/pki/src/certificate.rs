//! What a certificate says of itself.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use sha2::{Digest as _, Sha256};
use snafu::{OptionExt as _, ResultExt as _, Snafu};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::Purpose;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Why there is no certificate.
#[derive(Debug, Snafu)]
pub enum ReadError {
    /// Not PEM.
    #[snafu(display("the certificate is not readable as PEM"))]
    ReadPem {
        /// Why.
        source: pem::Error,
    },
    /// The text holds none.
    #[snafu(display("there is no certificate"))]
    FindCertificate,
    /// Not a certificate, or one with contents that are no good.
    #[snafu(display("the certificate cannot be read: {why}"))]
    Parse {
        /// In words.
        why: String,
    },
}

/// A certificate, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The common name of its subject, if it has one.
    pub name: String,
    /// SHA-256 of all of it, in hexadecimal digits.
    pub thumbprint: String,
    /// When it begins.
    pub begins: Timestamp,
    /// When it is over.
    pub ends: Timestamp,
    /// DNS names it is for.
    pub hosts: Vec<String>,
    /// Addresses it is for.
    pub addresses: Vec<IpAddr>,
    /// URIs it is for.
    pub uris: Vec<String>,
    /// What it may be used for.
    pub purposes: BTreeSet<Purpose>,
    /// It may sign others.
    pub is_authority: bool,
    /// It names nobody above itself.
    pub is_root: bool,
    /// The key it was made for.
    public_key: Vec<u8>,
    der: CertificateDer<'static>,
}

impl Certificate {
    /// The first one of a text.
    pub fn read(pem: &str) -> Result<Self, ReadError> {
        Self::read_all(pem)?.into_iter().next().context(FindCertificateSnafu)
    }

    /// All of a text, in their order.
    pub fn read_all(pem: &str) -> Result<Vec<Self>, ReadError> {
        let ders = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        ders.context(ReadPemSnafu)?.iter().map(Self::of).collect()
    }

    /// As it came over the wire.
    pub fn of(der: &CertificateDer<'_>) -> Result<Self, ReadError> {
        let (rest, read) = X509Certificate::from_der(der).map_err(|error| broken(&error))?;
        if !rest.is_empty() {
            return ParseSnafu { why: "something follows it" }.fail();
        }
        let names = read.subject_alternative_name().map_err(|error| broken(&error))?;
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let usage = read.extended_key_usage().map_err(|error| broken(&error))?;
        let purposes = usage.map(|usage| {
            let of = |is: bool, purpose| is.then_some(purpose);
            [of(usage.value.server_auth, Purpose::Server), of(usage.value.client_auth, Purpose::Client)]
        });
        let name = read.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        Ok(Self {
            name: name.unwrap_or_default().to_owned(),
            thumbprint: hex(&Sha256::digest(der)),
            begins: moment(read.validity().not_before.timestamp())?,
            ends: moment(read.validity().not_after.timestamp())?,
            hosts: names.iter().filter_map(host).collect(),
            addresses: names.iter().filter_map(address).collect(),
            uris: names.iter().filter_map(uri).collect(),
            purposes: purposes.into_iter().flatten().flatten().collect(),
            is_authority: read.is_ca(),
            is_root: read.issuer().as_raw() == read.subject().as_raw(),
            public_key: read.public_key().raw.to_vec(),
            der: der.clone().into_owned(),
        })
    }

    /// As it goes over the wire.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The key it was made for, as [`crate::Key::public`] has it.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }
}

/// The certificates of a text, each as text of its own. What stands between them is left out.
pub fn split(pem: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = pem;
    while let Some(begin) = rest.find(BEGIN) {
        let Some(end) = rest[begin..].find(END) else { break };
        let end = begin + end + END.len();
        found.push(format!("{}\n", &rest[begin..end]));
        rest = &rest[end..];
    }
    found
}

fn broken(error: &dyn std::error::Error) -> ReadError {
    ReadError::Parse { why: error.to_string() }
}

fn moment(seconds: i64) -> Result<Timestamp, ReadError> {
    Timestamp::from_second(seconds).map_err(|error| broken(&error))
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(host) => Some((*host).to_owned()),
        _ => None,
    }
}

fn uri(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        _ => None,
    }
}

fn address(name: &GeneralName<'_>) -> Option<IpAddr> {
    let GeneralName::IPAddress(bytes) = name else { return None };
    let of_four = <[u8; 4]>::try_from(*bytes).map(|bytes| Ipv4Addr::from(bytes).into());
    of_four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(|bytes| Ipv6Addr::from(bytes).into())).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
