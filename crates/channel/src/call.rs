//! Opening channels.

use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pki::{Home, Identity, Role};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use snafu::{OptionExt as _, ResultExt as _, Snafu};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::credentials::provider;
use crate::{Credentials, Peer, Refusal};

/// Why somebody was not reached.
#[derive(Debug, Snafu)]
pub enum CallError {
    /// The name of its cluster's door is none.
    #[snafu(display("{} cannot be asked for", home.door()))]
    AskFor {
        /// Which.
        home: Home,
    },
    /// Nobody answers.
    #[snafu(display("failed to connect to {address}"))]
    Connect {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The credentials cannot be used.
    #[snafu(display("failed to prepare TLS"))]
    Prepare {
        /// Why.
        source: rustls::Error,
    },
    /// Whoever answers is not believed, or does not believe.
    #[snafu(display("failed to open a channel to {address}"))]
    Open {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: Refusal,
    },
}

/// Whom to call.
#[derive(Clone, Debug)]
pub struct Called {
    /// Where.
    pub address: SocketAddr,
    /// Who must answer.
    pub whom: Whom,
}

/// Who must answer. The other end may have a certificate of several clusters, and shows the one of this one's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Just this one.
    Just(Identity),
    /// The agent beside any server of this cluster: an address is known, and not in which pod it is by now.
    SidecarOf(Home),
}

impl Whom {
    /// Of which cluster it is.
    pub fn home(&self) -> Home {
        match self {
            Self::Just(identity) => identity.home(),
            Self::SidecarOf(home) => home.clone(),
        }
    }

    fn is(&self, identity: &Identity) -> bool {
        match self {
            Self::Just(expected) => identity == expected,
            // One that is in no pod is beside no server.
            Self::SidecarOf(home) => {
                identity.role == Role::Sidecar && identity.pod.is_some() && identity.home() == *home
            }
        }
    }
}

/// Open a channel to whom is called and nobody else, within this time. No name and no address is verified, but who it is.
pub async fn call(
    called: &Called,
    credentials: &Credentials,
    within: Duration,
) -> Result<TlsStream<TcpStream>, CallError> {
    let address = called.address;
    let home = called.whom.home();
    let name = ServerName::try_from(home.door()).ok().context(AskForSnafu { home })?;
    let connector = TlsConnector::from(Arc::new(config(called, credentials).context(PrepareSnafu)?));
    let deadline = tokio::time::Instant::now() + within;
    let connected = tokio::time::timeout_at(deadline, TcpStream::connect(address)).await;
    let connection =
        connected.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())).context(ConnectSnafu { address })?;
    // Words are short and come one at a time: none of them waits for another.
    let _ = connection.set_nodelay(true);
    let opened = tokio::time::timeout_at(deadline, connector.connect(name, connection)).await;
    let opened = opened.map_err(|_| Refusal::Silent).context(OpenSnafu { address })?;
    opened.map_err(|error| Refusal::of(&error)).context(OpenSnafu { address })
}

fn config(called: &Called, credentials: &Credentials) -> Result<ClientConfig, rustls::Error> {
    let verifier = Verifier {
        trusted: credentials.trusted.clone(),
        expected: called.whom.clone(),
        provider: provider(),
    };
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(credentials.shown.clone())));
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Believes only somebody whom the authorities that are trusted signed for, and only the one who was called.
struct Verifier {
    trusted: Arc<RootCertStore>,
    expected: Whom,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Verifier")
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(shown)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.trusted, others, now, algorithms)?;
        if !self.expected.is(&Peer::claimed(shown)?.identity) {
            return Err(Refusal::SomebodyElse.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, shown, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, shown, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
