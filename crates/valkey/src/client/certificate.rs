//! A server's certificate as somebody gave it: judged before any server is started with it.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, UnixTime, pem};
use rustls::server::VerifierBuilderError;
use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret as _, SecretString};
use snafu::{OptionExt as _, ResultExt as _, Snafu};

/// What a wildcard of a certificate stands for when a name is needed.
const ANY: &str = "any";

/// What is wrong with a certificate. Never holds a key.
#[derive(Debug, Snafu)]
pub enum CertificateError {
    /// Not PEM.
    #[snafu(display("the certificate is not readable as PEM"))]
    ReadCertificate {
        /// Why.
        source: pem::Error,
    },
    /// There is none.
    #[snafu(display("there is no certificate"))]
    FindCertificate,
    /// Not a certificate.
    #[snafu(display("the certificate cannot be read"))]
    ParseCertificate {
        /// Why.
        source: webpki::Error,
    },
    /// Clients check names.
    #[snafu(display("the certificate is not valid for any DNS name"))]
    FindName,
    /// Clients check names.
    #[snafu(display("the certificate has a name that is none: {name:?}"))]
    ParseName {
        /// The name.
        name: String,
        /// Why.
        source: InvalidDnsNameError,
    },
    /// Not PEM, or no key.
    #[snafu(display("the key is not readable as PEM"))]
    ReadKey {
        /// Why.
        source: pem::Error,
    },
    /// The key belongs to another certificate, or cannot be used.
    #[snafu(display("the key does not belong to the certificate"))]
    Match {
        /// Why.
        source: rustls::Error,
    },
    /// Not PEM.
    #[snafu(display("the CA certificates are not readable as PEM"))]
    ReadRoots {
        /// Why.
        source: pem::Error,
    },
    /// Not a certificate.
    #[snafu(display("a CA certificate cannot be read"))]
    TrustRoot {
        /// Why.
        source: rustls::Error,
    },
    /// There is none.
    #[snafu(display("there is no CA certificate"))]
    FindRoots {
        /// Why.
        source: VerifierBuilderError,
    },
    /// The CA did not sign it, or its time is over.
    #[snafu(display("the certificate is not trusted by its own CA"))]
    Verify {
        /// Why.
        source: rustls::Error,
    },
}

/// A name that the first certificate of a chain is valid for.
pub fn name_in_certificate(chain_pem: &str) -> Result<String, CertificateError> {
    let leaf = CertificateDer::from_pem_slice(chain_pem.as_bytes()).context(ReadCertificateSnafu)?;
    let leaf = webpki::EndEntityCert::try_from(&leaf).context(ParseCertificateSnafu)?;
    let name = leaf.valid_dns_names().next().context(FindNameSnafu)?;
    Ok(match name.strip_prefix("*.") {
        Some(rest) => format!("{ANY}.{rest}"),
        None => name.to_owned(),
    })
}

/// Whether servers can start with a certificate, its key and its CA, and whether clients who trust that CA will trust them.
/// Returns a name to verify them by. `since_epoch` is the time now.
pub fn check_certificate(
    chain_pem: &str,
    key_pem: &SecretString,
    ca_pem: &str,
    since_epoch: Duration,
) -> Result<String, CertificateError> {
    let chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context(ReadCertificateSnafu)?;
    let (leaf, intermediates) = chain.split_first().context(FindCertificateSnafu)?;
    let name = name_in_certificate(chain_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.expose_secret().as_bytes()).context(ReadKeySnafu)?;
    let provider = Arc::new(ring::default_provider());
    CertifiedKey::from_der(chain.clone(), key, &provider).context(MatchSnafu)?;
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(root.context(ReadRootsSnafu)?).context(TrustRootSnafu)?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .context(FindRootsSnafu)?;
    let server = ServerName::try_from(name.clone()).context(ParseNameSnafu { name: &name })?;
    let now = UnixTime::since_unix_epoch(since_epoch);
    verifier.verify_server_cert(leaf, intermediates, &server, &[], now).context(VerifySnafu)?;
    Ok(name)
}
