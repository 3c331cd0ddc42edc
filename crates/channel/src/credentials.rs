//! What one end of a channel shows, and whom it trusts.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret as _, SecretString};
use snafu::{ResultExt as _, Snafu, ensure};

/// Why there are no credentials.
#[derive(Debug, Snafu)]
pub enum CredentialsError {
    /// Not PEM.
    #[snafu(display("the certificates of {what} are not readable as PEM"))]
    ReadCertificates {
        /// Whose.
        what: &'static str,
        /// Why.
        source: pem::Error,
    },
    /// There are none.
    #[snafu(display("there is no certificate of {what}"))]
    FindCertificate {
        /// Whose.
        what: &'static str,
    },
    /// Not PEM, or no key.
    #[snafu(display("the key is not readable as PEM"))]
    ReadKey {
        /// Why. It never quotes the key.
        source: pem::Error,
    },
    /// A key that cannot be used, or another one's.
    #[snafu(display("the key cannot be used with the certificate"))]
    UseKey {
        /// Why. It never quotes the key.
        source: rustls::Error,
    },
    /// Somebody to trust who is nobody.
    #[snafu(display("a certificate to trust cannot be used"))]
    Trust {
        /// Why.
        source: rustls::Error,
    },
}

/// What one end shows, and whom it trusts.
pub struct Credentials {
    pub(crate) shown: Arc<CertifiedKey>,
    pub(crate) trusted: Arc<RootCertStore>,
}

impl Credentials {
    /// From a certificate with all that must be shown beside it, its key, and everybody who is trusted.
    pub fn read(chain: &str, key: &SecretString, trusted: &str) -> Result<Self, CredentialsError> {
        let chain = certificates(chain, "this end")?;
        let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes()).context(ReadKeySnafu)?;
        let shown = CertifiedKey::from_der(chain, key, &provider()).context(UseKeySnafu)?;
        let mut roots = RootCertStore::empty();
        for one in certificates(trusted, "anybody to trust")? {
            roots.add(one).context(TrustSnafu)?;
        }
        Ok(Self { shown: Arc::new(shown), trusted: Arc::new(roots) })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(…)")
    }
}

fn certificates(text: &str, what: &'static str) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let all = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let all = all.context(ReadCertificatesSnafu { what })?;
    ensure!(!all.is_empty(), FindCertificateSnafu { what });
    Ok(all)
}

/// One crypto provider, as everywhere.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
