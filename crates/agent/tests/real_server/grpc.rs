//! Who is answered on the port for agents and the operator, and who is not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pki::{Identity, Role as Part};
use proto::agent::Role;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use valkey::testing::Release;

use crate::support::caller::Caller;
use crate::support::operator::{authority, identity};
use crate::support::sidecar::{POD, counted, pod, refusals, said_in_the_log, sign};

const PEER: &str = "valkey-cache-0-1-0";

/// What somebody who says this without a certificate hears.
async fn plainly(at: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(words).await.unwrap();
    let mut heard = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut heard)).await.unwrap();
    heard
}

#[tokio::test]
async fn agents_of_the_cluster_and_the_operator_are_told_what_the_server_is() {
    for release in Release::ALL {
        let authority = authority();
        let (pod, sidecar) = pod(release, &authority).await;
        let id = pod.connect().await.cluster_myid().await.unwrap();
        for who in [identity(Part::Sidecar, Some(PEER)), identity(Part::Operator, None)] {
            let told = Caller::new(&authority, who).look(sidecar.grpc).await.unwrap();
            assert_eq!((told.role(), &told.node_id, told.slots), (Role::Primary, &id, 16384));
        }
    }
}

#[tokio::test]
async fn nobody_else_is_answered() {
    let own = authority();
    let (pod, sidecar) = pod(Release::ALL[0], &own).await;
    let elsewhere = Identity { cluster: "queue".to_owned(), ..identity(Part::Sidecar, Some(PEER)) };
    for (what, authority, who, reason) in [
        ("another authority's", &authority(), identity(Part::Sidecar, Some(PEER)), "notBelieved"),
        ("another cluster's", &own, elsewhere, "unknownCluster"),
        ("one that prepares pods", &own, identity(Part::Init, Some(PEER)), "notAdmitted"),
        ("one in no pod", &own, identity(Part::Sidecar, None), "notAdmitted"),
    ] {
        let before = refusals(&sidecar, reason).await;
        Caller::trusting(authority, who, &own).look(sidecar.grpc).await.expect_err(what);
        counted(&sidecar, reason, before + 1).await;
    }

    // In plain words, and by TLS without a certificate.
    let heard = plainly(sidecar.grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(!heard.windows(4).any(|bytes| bytes == b"HTTP"), "{heard:?}");
    counted(&sidecar, "notTls", 1).await;
    without_certificate(sidecar.grpc).await;
    counted(&sidecar, "noCertificate", 1).await;
    assert!(said_in_the_log(&pod).contains("somebody at 127.0.0.1 was sent away"));

    // Whoever holds a place without a word loses it.
    assert_eq!(plainly(sidecar.grpc, b"").await, b"");
    counted(&sidecar, "silent", 1).await;
    Caller::new(&own, identity(Part::Operator, None)).look(sidecar.grpc).await.unwrap();
}

#[tokio::test]
async fn certificates_that_are_replaced_are_used_for_the_next_caller() {
    let first = authority();
    let (pod, sidecar) = pod(Release::ALL[0], &first).await;
    let operator = || identity(Part::Operator, None);
    Caller::new(&first, operator()).look(sidecar.grpc).await.unwrap();
    let second = authority();
    sign(&pod, &second, POD);
    Caller::new(&second, operator()).look(sidecar.grpc).await.unwrap();
    Caller::new(&first, operator()).look(sidecar.grpc).await.expect_err("should not be known any more");
}

async fn without_certificate(at: SocketAddr) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("cache.team.valkey.local").unwrap();
    let connection = TcpStream::connect(at).await.unwrap();
    if let Ok(mut stream) = connector.connect(name, connection).await {
        stream.read_u8().await.expect_err("should hear nothing");
    }
}

/// Believes everybody, to see what the other end says.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
