//! Primaries that are real servers, with the operator's own users, and a client that goes where it is sent.

use std::time::Duration;

use secrecy::SecretString;
use valkey::acl::{SystemUser, User, render_file};
use valkey::client::Value;
use valkey::cluster::{Flag, Node};
pub(super) use valkey::testing::eventually;
use valkey::testing::{Release, Server};
use valkey::{Connection, Deadlines, Error, SlotRange};

/// A busy machine is no failure.
const PATIENCE: Duration = Duration::from_secs(20);
const CONF: &str = "cluster-enabled yes\ncluster-announce-ip 127.0.0.1\ncluster-allow-replica-migration no\n\
    user default off\nuser client on >client ~* &* +@all";

/// A primary.
pub(super) struct Primary {
    server: Server,
    pub(super) id: String,
    client: Connection,
}

/// The password of one of the operator's users.
pub(super) fn password(user: SystemUser) -> SecretString {
    format!("password of {}", user.name()).into()
}

impl Primary {
    async fn start(release: Release) -> Self {
        let users =
            [SystemUser::Operator, SystemUser::Replication].map(|user| User::system(user, &[password(user)]));
        let conf = format!("{CONF}\n{}", render_file(&users).text);
        let server = Server::start(release, &conf).unwrap_or_else(|error| panic!("{error}"));
        let client = enter(&server, "client", "client".into()).await;
        let id = client.cluster_myid().await.expect("should have an id");
        Self { server, id, client }
    }

    /// A connection of the operator.
    pub(super) async fn operator(&self) -> Connection {
        enter(&self.server, SystemUser::Operator.name(), password(SystemUser::Operator)).await
    }

    pub(super) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(super) fn log(&self) -> String {
        self.server.log()
    }

    /// What it says of itself.
    pub(super) async fn myself(&self) -> Node {
        let table = self.client.cluster_nodes().await.expect("should answer");
        table.myself().expect("should be listed").clone()
    }

    pub(super) async fn owns(&self, slot: u16) -> bool {
        self.myself().await.slots.iter().any(|range| range.contains(slot))
    }

    pub(super) async fn keys_in(&self, slot: u16) -> u64 {
        self.client.cluster_count_keys_in_slot(slot).await.expect("should answer")
    }

    pub(super) async fn raw(&self, words: &[&str]) -> Result<Value, Error> {
        self.client.raw(words).await
    }
}

async fn enter(server: &Server, user: &str, password: SecretString) -> Connection {
    let target = server.target().with_credentials(Some(user), password);
    let deadlines = Deadlines { connect: PATIENCE, command: PATIENCE };
    Connection::open(&target.with_deadlines(deadlines)).await.expect("should let us in")
}

/// So many primaries that know each other; the first owns every slot.
pub(super) async fn form(release: Release, count: usize) -> Vec<Primary> {
    let mut primaries = Vec::new();
    for epoch in 1..=count {
        let primary = Primary::start(release).await;
        let epoch = u64::try_from(epoch).expect("should be few");
        primary.client.cluster_set_config_epoch(epoch).await.expect("should take an epoch");
        primaries.push(primary);
    }
    let first = &primaries[0];
    first.client.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
    for other in &primaries[1..] {
        first.client.cluster_meet("127.0.0.1", other.port()).await.expect("should meet");
    }
    eventually("everybody knows everybody and who owns what", || async {
        for primary in &primaries {
            let table = primary.client.cluster_nodes().await.expect("should answer");
            let known = table.nodes.iter().filter(|node| !node.flags.contains(&Flag::Handshake)).count();
            let health = primary.client.cluster_health().await.expect("should answer");
            if known < count || !health.state_ok {
                return None;
            }
        }
        Some(())
    })
    .await;
    primaries
}

/// What a client gets that begins anywhere and goes where it is sent.
pub(super) async fn ask(primaries: &[Primary], words: &[&str]) -> Value {
    let mut at = primaries.last().expect("should have primaries");
    for _ in 0..10 {
        let (code, message) = match at.client.raw(words).await {
            Err(Error::Server { code, message, .. }) => (code, message),
            reply => return reply.expect("should be served"),
        };
        // `MOVED 5 127.0.0.1:6379`, or `ASK` for this one time.
        let port = message.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        at = primaries.iter().find(|other| Some(other.port()) == port).expect("should be sent to a primary");
        if code == "ASK" {
            at.client.raw(&["ASKING"]).await.expect("should listen");
            return at.client.raw(words).await.expect("should serve whom it was sent");
        }
    }
    panic!("a client is sent in circles: {words:?}");
}
