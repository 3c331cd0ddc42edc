//! An operator that hears what agents say: real channels and real certificates, and nothing behind them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use channel::{Accepted, Credentials, Door, Doorbell, Peer};
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Home, Identity, Leaf, Purpose, Role};
use proto::heartbeat::{Event, Happened, Heartbeat, Report, Stamp};
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const SOON: Duration = Duration::from_secs(5);

/// What was said, and by whom.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) stamp: Stamp,
    pub(crate) revision: u64,
    pub(crate) report: Option<Report>,
    pub(crate) event: Option<Event>,
    pub(crate) thumbprint: String,
}

pub(crate) fn identity(role: Role, pod: Option<&str>) -> Identity {
    Identity {
        trust_domain: "valkey.local".to_owned(),
        namespace: "team".to_owned(),
        cluster: "cache".to_owned(),
        role,
        pod: pod.map(str::to_owned),
    }
}

pub(crate) fn authority() -> Authority {
    let root = Authority::root("root", Timestamp::now(), SignedDuration::from_hours(100)).unwrap();
    root.below("cache", Timestamp::now(), SignedDuration::from_hours(50)).unwrap()
}

/// The three files of somebody whom this authority signed for.
pub(crate) fn papers(authority: &Authority, identity: Identity) -> [(&'static str, String); 3] {
    let leaf = Leaf {
        name: "party".to_owned(),
        hosts: Vec::new(),
        addresses: Vec::new(),
        identity: Some(identity),
        purposes: vec![Purpose::Server, Purpose::Client],
        from: Timestamp::now(),
        validity: SignedDuration::from_hours(1),
    };
    let (chain, key) = authority.issue(&leaf).unwrap();
    let key = key.pem().expose_secret().to_owned();
    [("tls.crt", chain), ("tls.key", key), ("ca.crt", authority.anchor().to_owned())]
}

struct Bell(Mutex<Arc<Credentials>>);

impl Doorbell for Bell {
    fn credentials(&self, _: &Home) -> Option<Arc<Credentials>> {
        Some(self.0.lock().unwrap().clone())
    }

    fn admits(&self, peer: &Peer) -> bool {
        peer.identity.role == Role::Sidecar
    }
}

pub(crate) struct Operator {
    pub(crate) address: SocketAddr,
    bell: Arc<Bell>,
    heard: mpsc::UnboundedReceiver<Said>,
    /// What it answers next; it is well with everything then.
    pub(crate) answers: Arc<Mutex<Vec<&'static str>>>,
    listening: tokio::task::JoinHandle<()>,
}

fn credentials(authority: &Authority) -> Arc<Credentials> {
    let [(_, chain), (_, key), (_, trusted)] = papers(authority, identity(Role::Operator, None));
    Arc::new(Credentials::read(&chain, &key.into(), &trusted).unwrap())
}

impl Operator {
    pub(crate) async fn at(address: SocketAddr, authority: &Authority) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let bell = Arc::new(Bell(Mutex::new(credentials(authority))));
        let door = Arc::new(Door::new(bell.clone()).unwrap());
        let answers: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let (say, heard) = mpsc::unbounded_channel();
        let replies = answers.clone();
        let listening = tokio::spawn(async move {
            loop {
                let (connection, from) = listener.accept().await.unwrap();
                let (door, say, replies) = (door.clone(), say.clone(), replies.clone());
                tokio::spawn(async move {
                    if let Ok(accepted) = door.accept(connection, from, SOON).await {
                        let reply = || replies.lock().unwrap().pop().unwrap_or("{\"answer\": \"ok\"}");
                        say.send(converse(accepted, reply).await).ok();
                    }
                });
            }
        });
        Self { address, bell, heard, answers, listening }
    }

    /// From now on it shows, and believes, another authority.
    pub(crate) fn changes_to(&self, authority: &Authority) {
        *self.bell.0.lock().unwrap() = credentials(authority);
    }

    pub(crate) async fn next(&mut self) -> Said {
        let heard = tokio::time::timeout(Duration::from_secs(20), self.heard.recv());
        heard.await.expect("something is said").expect("somebody listens")
    }

    /// Everything until this holds, and that.
    pub(crate) async fn until(&mut self, holds: impl Fn(&Said) -> bool) -> Said {
        loop {
            let said = self.next().await;
            if holds(&said) {
                return said;
            }
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn converse(accepted: Accepted, reply: impl Fn() -> &'static str) -> Said {
    let Accepted { stream, peer, .. } = accepted;
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        head += &line;
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let thumbprint = peer.certificate.thumbprint.clone();
    let said = if head.starts_with("POST /v1/heartbeat ") {
        let Heartbeat { stamp, revision, report } = serde_json::from_slice(&body).unwrap();
        Said { stamp, revision, report, event: None, thumbprint }
    } else {
        assert!(head.starts_with("POST /v1/events "), "{head}");
        let Happened { stamp, event, revision, report } = serde_json::from_slice(&body).unwrap();
        Said { stamp, revision, report, event: Some(event), thumbprint }
    };
    let reply = reply();
    let answer =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{reply}", reply.len());
    // Whoever asked may be gone.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    said
}
