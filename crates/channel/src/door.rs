//! Accepting channels.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pki::Home;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::credentials::provider;
use crate::{Credentials, Peer, Refusal};

/// Who lives behind a door. It is asked anew for every channel, so that an answer may change at any time.
pub trait Doorbell: Send + Sync + 'static {
    /// What is shown to members of a cluster, and what they are verified with; nothing, if the cluster is not known here. One
    /// answer for both, and for just this cluster: nobody can be shown one thing and believed by another.
    fn credentials(&self, home: &Home) -> Option<Arc<Credentials>>;

    /// Whether somebody who is who it says may come in.
    fn admits(&self, peer: &Peer) -> bool;
}

/// Accepts channels.
pub struct Door {
    acceptor: TlsAcceptor,
}

/// A channel that was opened from outside. It outlives what opened it: whoever keeps it for long asks now and then whether the peer
/// would still be let in.
pub struct Accepted {
    /// The channel.
    pub stream: TlsStream<TcpStream>,
    /// Who opened it.
    pub peer: Peer,
    /// From where.
    pub address: SocketAddr,
}

impl Door {
    /// A door with this bell.
    pub fn new(bell: Arc<dyn Doorbell>) -> Result<Self, rustls::Error> {
        let verifier = Arc::new(Verifier { bell: bell.clone(), provider: provider() });
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(Resolver(bell)));
        // Whoever comes again shows its certificate again: it may have been replaced, or its pod may be gone.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Find out who opened a connection, within this time.
    pub async fn accept(
        &self,
        connection: TcpStream,
        address: SocketAddr,
        within: Duration,
    ) -> Result<Accepted, Refusal> {
        // Words are short and come one at a time: none of them waits for another.
        let _ = connection.set_nodelay(true);
        let handshake = tokio::time::timeout(within, self.acceptor.accept(connection));
        let stream = handshake.await.map_err(|_| Refusal::Silent)?.map_err(|error| Refusal::of(&error))?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let peer = Peer::claimed(shown.ok_or(Refusal::NoCertificate)?)?;
        // A listener for both families sees an IPv4 address in another form than everybody else.
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        Ok(Accepted { stream, peer, address })
    }
}

/// Shows what fits the name that was asked for.
struct Resolver(Arc<dyn Doorbell>);

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Resolver")
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let home = Home::of_door(hello.server_name()?)?;
        self.0.credentials(&home).map(|credentials| credentials.shown.clone())
    }
}

/// Believes somebody only by the authority of the cluster that it claims to be of.
struct Verifier {
    bell: Arc<dyn Doorbell>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Verifier")
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let claimed = Peer::claimed(shown)?;
        let home = claimed.identity.home();
        let credentials = self.bell.credentials(&home).ok_or(Refusal::UnknownCluster)?;
        let trusted = credentials.trusted.clone();
        let authorities = WebPkiClientVerifier::builder_with_provider(trusted, self.provider.clone())
            .build()
            .map_err(|_| Refusal::NotBelieved)?;
        let verified = authorities.verify_client_cert(shown, others, now).map_err(|error| match error {
            rustls::Error::InvalidCertificate(why) => Refusal::of_certificate(&why),
            _ => Refusal::NotBelieved,
        })?;
        // Only now is it known who it is.
        if !self.bell.admits(&claimed) {
            return Err(Refusal::NotAdmitted.into());
        }
        Ok(verified)
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
