//! Turning PEM into a TLS configuration, always with ring, never with the roots of the host.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, pem};
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret;
use snafu::{OptionExt, ResultExt, Snafu, ensure};

use super::target::{Endpoint, Tls};

/// What is wrong with the handshake, or with what we were given for it.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub(super)))]
pub enum TlsError {
    /// The roots are no PEM.
    #[snafu(display("failed to read the CA certificates"))]
    ReadRoots {
        /// Why.
        source: pem::Error,
    },
    /// The roots hold no certificate, so that nobody could be trusted.
    #[snafu(display("failed to find a CA certificate"))]
    FindRoots,
    /// A root is no certificate.
    #[snafu(display("failed to trust a CA certificate"))]
    TrustRoot {
        /// Why.
        source: rustls::Error,
    },
    /// Our own certificate is no PEM.
    #[snafu(display("failed to read the client certificate"))]
    ReadCertificate {
        /// Why.
        source: pem::Error,
    },
    /// Our own key is no PEM.
    #[snafu(display("failed to read the client key"))]
    ReadKey {
        /// Why.
        source: pem::Error,
    },
    /// Our own certificate and key do not belong together, or cannot be used.
    #[snafu(display("failed to use the client certificate"))]
    UseCertificate {
        /// Why.
        source: rustls::Error,
    },
    /// The configuration is impossible.
    #[snafu(display("failed to configure TLS"))]
    Configure {
        /// Why.
        source: rustls::Error,
    },
    /// The name to verify is neither a DNS name nor an address.
    #[snafu(display("failed to verify a server by the name {name:?}"))]
    Name {
        /// The name.
        name: String,
        /// Why.
        source: InvalidDnsNameError,
    },
    /// Valkey speaks TLS on ports only.
    #[snafu(display("failed to use TLS on a unix socket: Valkey offers it on ports only"))]
    UnixSocket,
    /// The handshake failed.
    #[snafu(display("failed to shake hands"))]
    Handshake {
        /// Why, as rustls tells it.
        source: io::Error,
    },
    /// The server ended the connection after the handshake, as TLS 1.3 servers do with a client they do not trust.
    #[snafu(display("failed to be accepted by the server"))]
    Rejected {
        /// The alert.
        source: rustls::Error,
    },
}

/// The configuration for one connection.
pub(super) fn client_config(tls: &Tls) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(tls.ca_pem.as_bytes()) {
        roots.add(certificate.context(ReadRootsSnafu)?).context(TrustRootSnafu)?;
    }
    ensure!(!roots.is_empty(), FindRootsSnafu);
    // Explicitly, so that no program has to install a process-wide provider first.
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context(ConfigureSnafu)?
        .with_root_certificates(roots);
    let config = match &tls.client_identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .context(ReadCertificateSnafu)?;
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem.expose_secret().as_bytes())
                .context(ReadKeySnafu)?;
            builder.with_client_auth_cert(chain, key).context(UseCertificateSnafu)?
        }
    };
    Ok(Arc::new(config))
}

/// The name the server's certificate must carry.
pub(super) fn server_name(tls: &Tls, endpoint: &Endpoint) -> Result<ServerName<'static>, TlsError> {
    let host = match endpoint {
        Endpoint::Tcp { host, .. } => Some(host),
        Endpoint::Unix(_) => None,
    };
    let name = tls.server_name.as_ref().or(host).context(UnixSocketSnafu)?;
    ServerName::try_from(name.clone()).context(NameSnafu { name })
}
