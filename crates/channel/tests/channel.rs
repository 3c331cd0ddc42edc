//! Who is let in and who is not, over real connections on this machine.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on must end")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use channel::{Accepted, CallError, Called, Credentials, Door, Doorbell, Peer, Refusal, Whom, call};
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Home, Identity, Leaf, Purpose, Role};
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const SOON: Duration = Duration::from_secs(5);
const DOMAIN: &str = "valkey.local";

fn identity(cluster: &str, role: Role, pod: Option<&str>) -> Identity {
    Identity {
        trust_domain: DOMAIN.to_owned(),
        namespace: "team".to_owned(),
        cluster: cluster.to_owned(),
        role,
        pod: pod.map(str::to_owned),
    }
}

fn authority(cluster: &str) -> Authority {
    let root = Authority::root("root", Timestamp::now(), SignedDuration::from_hours(100)).unwrap();
    root.below(cluster, Timestamp::now(), SignedDuration::from_hours(50)).unwrap()
}

fn leaf(identity: Option<Identity>) -> Leaf {
    Leaf {
        name: "party".to_owned(),
        hosts: Vec::new(),
        addresses: Vec::new(),
        identity,
        purposes: vec![Purpose::Server, Purpose::Client],
        from: Timestamp::now(),
        validity: SignedDuration::from_hours(1),
    }
}

/// What somebody has whom `signer` signed for and who trusts `trusted`.
fn credentials(signer: &Authority, leaf: &Leaf, trusted: &Authority) -> Arc<Credentials> {
    let (chain, key) = signer.issue(leaf).unwrap();
    Arc::new(Credentials::read(&chain, &key.pem(), trusted.anchor()).unwrap())
}

fn home(cluster: &str) -> Home {
    identity(cluster, Role::Operator, None).home()
}

/// The operator, who has a certificate of each cluster.
#[derive(Default)]
struct Operator(Mutex<HashMap<Home, Arc<Credentials>>>);

impl Operator {
    fn looks_after(&self, cluster: &str, authority: &Authority) {
        self.shows(authority, &leaf(Some(identity(cluster, Role::Operator, None))), &home(cluster));
    }

    fn shows(&self, authority: &Authority, own: &Leaf, to: &Home) {
        self.0.lock().unwrap().insert(to.clone(), credentials(authority, own, authority));
    }
}

impl Doorbell for Operator {
    fn credentials(&self, home: &Home) -> Option<Arc<Credentials>> {
        self.0.lock().unwrap().get(home).cloned()
    }

    fn admits(&self, peer: &Peer) -> bool {
        peer.identity.role == Role::Sidecar
    }
}

/// A door, and what came of those who came to it.
struct House {
    address: SocketAddr,
    listener: TcpListener,
    door: Door,
}

impl House {
    async fn open(bell: Arc<dyn Doorbell>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { address: listener.local_addr().unwrap(), listener, door: Door::new(bell).unwrap() }
    }

    async fn accept(&self, within: Duration) -> Result<Accepted, Refusal> {
        let (connection, address) = self.listener.accept().await.unwrap();
        self.door.accept(connection, address, within).await
    }

    fn called(&self, cluster: &str) -> Called {
        Called { address: self.address, whom: Whom::Just(identity(cluster, Role::Operator, None)) }
    }
}

fn sidecar(cluster: &str) -> Leaf {
    leaf(Some(identity(cluster, Role::Sidecar, Some("valkey-cache-0-0-0"))))
}

struct World {
    cache: Authority,
    queue: Authority,
    operator: Arc<Operator>,
    house: House,
}

impl World {
    async fn new() -> Self {
        let (cache, queue) = (authority("cache"), authority("queue"));
        let operator = Arc::new(Operator::default());
        operator.looks_after("cache", &cache);
        operator.looks_after("queue", &queue);
        let house = House::open(operator.clone()).await;
        Self { cache, queue, operator, house }
    }

    /// Somebody calls as of the cluster `cache`: what the door says of it.
    async fn comes(&self, with: &Credentials) -> Result<Accepted, Refusal> {
        let called = self.house.called("cache");
        let (accepted, opened) = tokio::join!(self.house.accept(SOON), async {
            let mut stream = call(&called, with, SOON).await?;
            // With TLS 1.3 the caller is done first: whether it was believed, it learns from the first answer. Here nobody
            // answers who believes it.
            let _ = tokio::time::timeout(Duration::from_millis(200), stream.read_u8()).await;
            Ok::<_, CallError>(())
        });
        drop(opened);
        accepted
    }
}

#[tokio::test]
async fn members_of_a_cluster_come_in_and_are_known_by_who_they_are() {
    let world = World::new().await;
    let own = credentials(&world.cache, &sidecar("cache"), &world.cache);
    let called = world.house.called("cache");
    let (accepted, opened) = tokio::join!(world.house.accept(SOON), call(&called, &own, SOON));
    let (mut accepted, mut opened) = (accepted.unwrap(), opened.unwrap());
    assert_eq!(accepted.peer.identity, identity("cache", Role::Sidecar, Some("valkey-cache-0-0-0")));
    assert_eq!(accepted.address.ip(), world.house.address.ip());
    opened.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    accepted.stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
}

#[tokio::test]
async fn nobody_else_comes_in() {
    let world = World::new().await;
    let World { cache, queue, .. } = &world;
    let strange = authority("cache");
    let at = |from: i64, hours: i64| Leaf {
        from: Timestamp::now() + SignedDuration::from_hours(from),
        validity: SignedDuration::from_hours(hours),
        ..sidecar("cache")
    };
    let elsewhere =
        Identity { trust_domain: "other.local".to_owned(), ..identity("cache", Role::Sidecar, None) };
    // A cluster of the same name in another namespace, which is looked after, too.
    let twin = Identity { namespace: "other-team".to_owned(), ..identity("cache", Role::Sidecar, None) };
    let twins = authority("twin");
    let own = Identity { role: Role::Operator, ..twin.clone() };
    world.operator.shows(&twins, &leaf(Some(own)), &twin.home());
    let server_only = Leaf { purposes: vec![Purpose::Server], ..sidecar("cache") };
    let rows = [
        (
            "another cluster's member who claims to be of this one",
            queue,
            sidecar("cache"),
            Refusal::NotBelieved,
        ),
        ("an authority of the same name", &strange, sidecar("cache"), Refusal::NotBelieved),
        ("a cluster that nobody knows", cache, sidecar("unknown"), Refusal::UnknownCluster),
        ("another trust domain", cache, leaf(Some(elsewhere)), Refusal::UnknownCluster),
        (
            "the twin's name, signed by this one's authority",
            cache,
            leaf(Some(twin.clone())),
            Refusal::NotBelieved,
        ),
        ("this one's name, signed by the twin's authority", &twins, sidecar("cache"), Refusal::NotBelieved),
        ("expired", cache, at(-3, 2), Refusal::NotValidNow),
        ("not valid yet", cache, at(2, 3), Refusal::NotValidNow),
        ("nobody in particular", cache, leaf(None), Refusal::NobodyKnown),
        (
            "a role that has no business here",
            cache,
            leaf(Some(identity("cache", Role::Operator, None))),
            Refusal::NotAdmitted,
        ),
        ("a certificate for servers only", cache, server_only, Refusal::NotBelieved),
    ];
    for (name, signer, leaf, expected) in rows {
        let shown = credentials(signer, &leaf, cache);
        let refused = world.comes(&shown).await.err();
        assert_eq!(refused, Some(expected), "{name}");
    }
    // A member of the other cluster is let in as just that, and can say nothing for this one.
    let other = credentials(queue, &sidecar("queue"), cache);
    assert_eq!(
        world.comes(&other).await.map(|accepted| accepted.peer.identity.cluster),
        Ok("queue".to_owned())
    );
}

#[tokio::test]
async fn whoever_does_not_speak_as_it_should_is_sent_away() {
    let world = World::new().await;
    let refused = async |words: &'static [u8], within: Duration| {
        let talk = async {
            let mut plain = TcpStream::connect(world.house.address).await.unwrap();
            plain.write_all(words).await.unwrap();
            let mut answer = Vec::new();
            let _ = tokio::time::timeout(SOON, plain.read_to_end(&mut answer)).await;
        };
        let (accepted, ()) = tokio::join!(
            async {
                let result = world.house.accept(within).await;
                result.err()
            },
            talk
        );
        accepted
    };
    assert_eq!(refused(b"POST /v1/heartbeat HTTP/1.1\r\n\r\n", SOON).await, Some(Refusal::NotTls));
    assert_eq!(refused(b"", Duration::from_millis(50)).await, Some(Refusal::Silent));

    // Without a certificate, or with an older TLS.
    for (versions, expected) in
        [(&rustls::version::TLS13, Refusal::NoCertificate), (&rustls::version::TLS12, Refusal::NotTls)]
    {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[versions])
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let mut config = config;
        config.dangerous().set_certificate_verifier(Arc::new(anybody::Anybody));
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = rustls::pki_types::ServerName::try_from("cache.team.valkey.local").unwrap();
        let (accepted, ()) = tokio::join!(world.house.accept(SOON), async {
            let connection = TcpStream::connect(world.house.address).await.unwrap();
            if let Ok(mut stream) = connector.connect(name, connection).await {
                let _ = stream.read_u8().await;
            }
        });
        assert_eq!(accepted.err(), Some(expected));
    }
}

/// What is replaced is used for the next channel, and those that are open stay open.
#[tokio::test]
async fn credentials_are_replaced_while_channels_stay_open() {
    let world = World::new().await;
    let own = credentials(&world.cache, &sidecar("cache"), &world.cache);
    let called = world.house.called("cache");
    let open = async || {
        let (accepted, opened) = tokio::join!(world.house.accept(SOON), call(&called, &own, SOON));
        let (accepted, opened) = (accepted.unwrap(), opened.unwrap());
        let shown = opened.get_ref().1.peer_certificates().unwrap()[0].clone();
        (accepted, opened, shown)
    };
    let (mut accepted, mut opened, before) = open().await;
    world.operator.looks_after("cache", &world.cache);
    let (_accepted, _opened, after) = open().await;
    assert_ne!(before, after, "the next channel shows the new certificate");
    opened.write_all(b"still here").await.unwrap();
    let mut heard = [0; 10];
    accepted.stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"still here");

    // Once the cluster is gone, its members are strangers.
    world.operator.0.lock().unwrap().remove(&home("cache"));
    assert_eq!(world.comes(&own).await.err(), Some(Refusal::UnknownCluster));
}

/// Whoever calls believes only the one it called.
#[tokio::test]
async fn only_the_one_who_was_called_is_believed() {
    let world = World::new().await;
    let own = credentials(&world.cache, &sidecar("cache"), &world.cache);
    let told = async |called: &Called| {
        let (_, opened) = tokio::join!(world.house.accept(SOON), call(called, &own, SOON));
        match opened {
            Ok(_) => None,
            Err(CallError::Open { source, .. }) => Some(source),
            Err(error) => panic!("{error}"),
        }
    };
    let called = world.house.called("cache");
    assert_eq!(told(&called).await, None);
    let pod = identity("cache", Role::Sidecar, Some("valkey-cache-0-1-0"));
    assert_eq!(told(&Called { whom: Whom::Just(pod), ..called.clone() }).await, Some(Refusal::SomebodyElse));
    let unknown = identity("unknown", Role::Operator, None);
    assert_eq!(told(&Called { whom: Whom::Just(unknown), ..called.clone() }).await, Some(Refusal::Refused));

    let operator = leaf(Some(identity("cache", Role::Operator, None)));
    let past = Timestamp::now() - SignedDuration::from_hours(3);
    let rows = [
        ("another cluster's authority", &world.queue, operator.clone(), Refusal::NotBelieved),
        (
            "for clients only",
            &world.cache,
            Leaf { purposes: vec![Purpose::Client], ..operator.clone() },
            Refusal::NotBelieved,
        ),
        ("expired", &world.cache, Leaf { from: past, ..operator.clone() }, Refusal::NotValidNow),
        ("nobody in particular", &world.cache, leaf(None), Refusal::NobodyKnown),
    ];
    for (name, signer, shown, expected) in rows {
        world.operator.shows(signer, &shown, &home("cache"));
        assert_eq!(told(&called).await, Some(expected), "{name}");
    }
}

/// Whoever calls any agent of its cluster believes each of them, and nobody else.
#[tokio::test]
async fn any_sidecar_of_a_cluster_is_believed_where_any_was_called() {
    let world = World::new().await;
    let own = credentials(&world.cache, &sidecar("cache"), &world.cache);
    let called = Called { address: world.house.address, whom: Whom::SidecarOf(home("cache")) };
    let other_namespace =
        Identity { namespace: "other-team".to_owned(), ..identity("cache", Role::Sidecar, Some("a")) };
    let of = |role, pod| leaf(Some(identity("cache", role, pod)));
    let rows = [
        ("a pod", &world.cache, of(Role::Sidecar, Some("valkey-cache-0-1-0")), None),
        ("another pod", &world.cache, of(Role::Sidecar, Some("valkey-cache-7-0-0")), None),
        ("no pod", &world.cache, of(Role::Sidecar, None), Some(Refusal::SomebodyElse)),
        ("the operator", &world.cache, of(Role::Operator, None), Some(Refusal::SomebodyElse)),
        ("one that prepares", &world.cache, of(Role::Init, Some("a")), Some(Refusal::SomebodyElse)),
        ("another cluster", &world.cache, sidecar("queue"), Some(Refusal::SomebodyElse)),
        ("another namespace", &world.cache, leaf(Some(other_namespace)), Some(Refusal::SomebodyElse)),
        ("another authority", &world.queue, sidecar("cache"), Some(Refusal::NotBelieved)),
    ];
    for (name, signer, shown, expected) in rows {
        world.operator.shows(signer, &shown, &home("cache"));
        let (_, opened) = tokio::join!(world.house.accept(SOON), call(&called, &own, SOON));
        let refused = match opened {
            Ok(_) => None,
            Err(CallError::Open { source, .. }) => Some(source),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(refused, expected, "{name}");
    }
}

#[tokio::test]
async fn somebody_who_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cache = authority("cache");
    let own = credentials(&cache, &sidecar("cache"), &cache);
    let whom = Whom::Just(identity("cache", Role::Operator, None));
    let called = Called { address: listener.local_addr().unwrap(), whom };
    let error = call(&called, &own, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, CallError::Open { source: Refusal::Silent, .. }), "{error}");
    drop(listener);
    let error = call(&called, &own, SOON).await.unwrap_err();
    assert!(matches!(error, CallError::Connect { .. }), "{error}");
}

#[test]
fn credentials_that_do_not_fit_are_refused_and_show_nothing() {
    let (one, other) = (authority("one"), authority("other"));
    let (chain, key) = one.issue(&sidecar("one")).unwrap();
    let (_, strange) = one.issue(&sidecar("one")).unwrap();
    let good = Credentials::read(&chain, &key.pem(), other.anchor()).unwrap();
    assert_eq!(format!("{good:?}"), "Credentials(…)");
    let said = |chain: &str, key: &pki::Key, trusted: &str| {
        Credentials::read(chain, &key.pem(), trusted).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(said(&chain, &strange, one.anchor()), "the key cannot be used with the certificate");
    assert_eq!(said("", &key, one.anchor()), "there is no certificate of this end");
    assert_eq!(said(&chain, &key, ""), "there is no certificate of anybody to trust");
}

/// A caller that believes everybody, to see what the door says.
mod anybody {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub(super) struct Anybody;

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
}
