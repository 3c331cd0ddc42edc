//! TLS: whom we trust, by which name, and what we show.

use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use tempfile::TempDir;
use valkey::client::error::ConnectFailure;
use valkey::testing::{Release, Server};
use valkey::{Connection, Deadlines, Error, Identity, Target, Tls};

use crate::support::certificates::Authority;
use crate::support::{RELAXED, connect, running};

struct Encrypted {
    server: Server,
    authority: Authority,
    _files: TempDir,
}

impl Encrypted {
    fn start(release: Release, names: &[&str], auth_clients: &str) -> Self {
        let files = TempDir::with_prefix("certificates-").expect("should make a directory");
        let authority = Authority::new();
        let conf = authority.server_conf(files.path(), names, auth_clients);
        let server = running(Server::start_with_tls(release, &conf));
        Self { server, authority, _files: files }
    }

    fn target(&self) -> Target {
        Target::tcp("127.0.0.1", self.server.tls_port().expect("should have a port"))
    }

    fn tls(&self) -> Tls {
        Tls { ca_pem: self.authority.pem(), client_identity: None, server_name: None }
    }
}

async fn refused(target: Target) -> String {
    // With TLS 1.3 a client learns that it is not wanted only when it reads its first answer.
    let result = async { connect(target).await?.ping().await }.await;
    let error = result.expect_err("should refuse");
    assert!(matches!(error, Error::Tls { .. }) && !error.is_transient(), "{error:?}");
    format!("{error:?}")
}

#[tokio::test]
async fn servers_are_verified_by_address_or_by_name() {
    for release in Release::ALL {
        let encrypted = Encrypted::start(release, &["127.0.0.1", "node-0.valkey.svc"], "no");
        for server_name in [None, Some("node-0.valkey.svc".to_owned())] {
            let target = encrypted.target().with_tls(Tls { server_name, ..encrypted.tls() });
            connect(target).await.expect("should trust").ping().await.expect("should answer");
        }
        let wrong = Tls { server_name: Some("node-1.valkey.svc".to_owned()), ..encrypted.tls() };
        let shown = refused(encrypted.target().with_tls(wrong)).await;
        assert!(shown.contains("NotValidForName"), "{shown}");
    }
}

#[tokio::test]
async fn an_unknown_authority_is_not_trusted_and_one_of_several_is() {
    for release in Release::ALL {
        let encrypted = Encrypted::start(release, &["127.0.0.1"], "no");
        let stranger = Authority::new().pem();
        let shown =
            refused(encrypted.target().with_tls(Tls { ca_pem: stranger.clone(), ..encrypted.tls() })).await;
        assert!(shown.contains("UnknownIssuer") || shown.contains("BadSignature"), "{shown}");

        let both = Tls { ca_pem: format!("{stranger}{}", encrypted.authority.pem()), ..encrypted.tls() };
        let connection = connect(encrypted.target().with_tls(both)).await.expect("should trust the second");
        connection.ping().await.expect("should answer");
    }
}

#[tokio::test]
async fn a_server_that_wants_certificates_gets_one() {
    for release in Release::ALL {
        let encrypted = Encrypted::start(release, &["127.0.0.1"], "yes");
        refused(encrypted.target().with_tls(encrypted.tls())).await;
        let stranger = Tls { client_identity: Some(Authority::new().client()), ..encrypted.tls() };
        refused(encrypted.target().with_tls(stranger)).await;

        let known = Tls { client_identity: Some(encrypted.authority.client()), ..encrypted.tls() };
        let connection = connect(encrypted.target().with_tls(known)).await.expect("should be let in");
        connection.ping().await.expect("should answer");
    }
}

#[tokio::test]
async fn plain_words_at_a_tls_port_fail_in_time() {
    for release in Release::ALL {
        let encrypted = Encrypted::start(release, &["127.0.0.1"], "no");
        let connection = connect(encrypted.target()).await.expect("should shake hands");
        let error = connection.ping().await.expect_err("should not be understood");
        assert!(matches!(error, Error::Disconnected { .. } | Error::Protocol { .. }), "{error:?}");
        // The other way round the server waits for the rest of what looks like a line of text.
        let short = Deadlines { connect: Duration::from_millis(300), ..RELAXED };
        let plain_port = Target::tcp("127.0.0.1", encrypted.server.port());
        let error = Connection::open(&plain_port.with_tls(encrypted.tls()).with_deadlines(short))
            .await
            .expect_err("should not be understood");
        assert!(matches!(&error, Error::Connect { reason: ConnectFailure::Timeout, .. }), "{error:?}");
        assert!(format!("{error:?}").contains("the TLS handshake"), "{error:?}");
    }
}

#[tokio::test]
async fn unusable_material_is_named_before_anybody_is_dialled() {
    let authority = Authority::new();
    let (certificate_pem, _) = authority.issue(&["a"], ExtendedKeyUsagePurpose::ClientAuth);
    let (_, other_key) = authority.issue(&["b"], ExtendedKeyUsagePurpose::ClientAuth);
    let good = Tls { ca_pem: authority.pem(), client_identity: None, server_name: None };
    let mismatched = Identity { certificate_pem: certificate_pem.clone(), key_pem: other_key.into() };
    let keyless = Identity { certificate_pem, key_pem: "hush".into() };
    for (tls, expected) in [
        (Tls { ca_pem: String::new(), ..good.clone() }, "find a CA"),
        (Tls { client_identity: Some(mismatched), ..good.clone() }, "use the client certificate"),
        (Tls { client_identity: Some(keyless), ..good.clone() }, "read the client key"),
        (Tls { server_name: Some("not a name".to_owned()), ..good.clone() }, "by the name"),
    ] {
        let target = Target::tcp("127.0.0.1", 1).with_deadlines(RELAXED).with_tls(tls);
        let error = Connection::open(&target).await.expect_err("should be refused");
        let Error::Tls { source, .. } = &error else { panic!("{error:?}") };
        assert!(source.to_string().contains(expected), "{source}");
        assert!(!format!("{error:?}").contains("hush"));
    }
    let error =
        Connection::open(&Target::unix("/nowhere").with_tls(good)).await.expect_err("should be refused");
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
}
