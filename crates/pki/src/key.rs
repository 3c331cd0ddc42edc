//! Private keys, and what can be shown of them: ECDSA on the curve P-256, which every client and server of the field knows.

use std::fmt;

use rcgen::{CertificateParams, CertificateSigningRequestParams, KeyPair, PublicKeyData};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::{self, PemObject as _};
use secrecy::{ExposeSecret as _, SecretString};
use snafu::{ResultExt as _, Snafu};

use crate::pkcs8;

/// Why there is no key.
#[derive(Debug, Snafu)]
pub enum KeyError {
    /// The system gave no randomness.
    #[snafu(display("failed to make a key"))]
    Make {
        /// Why.
        source: rcgen::Error,
    },
    /// Not a key.
    #[snafu(display("the key is not readable as PEM"))]
    Read {
        /// Why. It never quotes the key.
        source: pem::Error,
    },
    /// One that cannot sign here.
    #[snafu(display(
        "the key is none that can be used: it must be ECDSA (P-256 or P-384), Ed25519 or RSA (2048 bits or more)"
    ))]
    Use {
        /// Why. It never quotes the key.
        source: rcgen::Error,
    },
    /// It cannot sign.
    #[snafu(display("failed to sign a request with the key"))]
    Sign {
        /// Why.
        source: rcgen::Error,
    },
}

/// A private key. Whoever prints it sees nothing of it.
pub struct Key(KeyPair);

impl Key {
    /// A new one.
    pub fn make() -> Result<Self, KeyError> {
        KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map(Self).context(MakeSnafu)
    }

    /// One that was stored.
    pub fn read(pem: &SecretString) -> Result<Self, KeyError> {
        let der = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes()).context(ReadSnafu)?;
        let mut read = Err(rcgen::Error::CouldNotParseKeyPair);
        for form in pkcs8::forms(&der) {
            read = read.or_else(|_| KeyPair::try_from(&form));
        }
        read.map(Self).context(UseSnafu)
    }

    /// To be stored.
    pub fn pem(&self) -> SecretString {
        self.0.serialize_pem().into()
    }

    /// What others may know of it, as it stands in certificates.
    pub fn public(&self) -> Vec<u8> {
        self.0.subject_public_key_info()
    }

    /// A word for somebody who issues certificates: that this key asks for one. What is to stand in it is not for the one
    /// who asks to say.
    pub fn request(&self) -> Result<String, KeyError> {
        let request = CertificateParams::default().serialize_request(&self.0).context(SignSnafu)?;
        request.pem().context(SignSnafu)
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// Why a request is none.
#[derive(Debug, Snafu)]
pub enum RequestError {
    /// Not PEM, not signed by the key it is for, or something in it that nobody here asks for.
    #[snafu(display("the request for a certificate is not readable"))]
    ReadRequest {
        /// Why.
        source: rcgen::Error,
    },
}

/// Somebody's request for a certificate, who has shown to have the key. Whatever else it asks for is not heard.
pub struct Request(rcgen::PublicKey);

impl Request {
    /// From the wire.
    pub fn read(pem: &str) -> Result<Self, RequestError> {
        let request = CertificateSigningRequestParams::from_pem(pem).context(ReadRequestSnafu)?;
        Ok(Self(request.public_key))
    }

    pub(crate) fn public_key(&self) -> &rcgen::PublicKey {
        &self.0
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Request(…)")
    }
}
