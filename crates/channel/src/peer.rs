//! Who is at the other end.

use std::sync::Arc;

use pki::{Certificate, Identity};
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, OtherError};

use crate::Refusal;

/// Somebody whose certificate was believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub identity: Identity,
    /// The certificate it showed.
    pub certificate: Certificate,
}

impl Peer {
    /// Who a certificate claims to be for; nothing is believed yet.
    pub(crate) fn claimed(certificate: &CertificateDer<'_>) -> Result<Self, Refusal> {
        let certificate = Certificate::of(certificate).map_err(|_| Refusal::NotReadable)?;
        // Two names would leave open which one was meant.
        let [uri] = certificate.uris.as_slice() else { return Err(Refusal::NobodyKnown) };
        let identity = uri.parse().map_err(|_| Refusal::NobodyKnown)?;
        Ok(Self { identity, certificate })
    }
}

/// A refusal on its way through the TLS library, from which it comes back as it is.
impl From<Refusal> for rustls::Error {
    fn from(refusal: Refusal) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refusal))))
    }
}
