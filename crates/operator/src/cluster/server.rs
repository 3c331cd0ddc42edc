//! Asking a server of a cluster what it is and whom it knows.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::heartbeat::{Report, ServerState};
use secrecy::{ExposeSecret as _, SecretString};
use valkey::acl::{Listed, SystemUser, hash_password};
use valkey::client::Section;
use valkey::cluster::{ClusterHealth, ClusterNodes, SlotMigration};
use valkey::info::Replication;
use valkey::{Connection, Deadlines, Error, Info, Target, Tls, Version};

use super::users::Passwords;

/// The directive with the password that a server shows its primary.
pub(super) const PRIMARYAUTH: &str = "primaryauth";

/// The directive with the zone of a server's machine.
pub(super) const AVAILABILITY_ZONE: &str = "availability-zone";

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerFacts {
    /// Its identity in the cluster.
    pub(super) id: String,
    /// Changes with every start of the server.
    pub(super) run_id: String,
    /// Since its start.
    pub(super) uptime: Option<Duration>,
    pub(super) version: Option<Version>,
    /// Where it was told to be; nothing if it cannot be told.
    pub(super) zone: Option<String>,
    pub(super) nodes: ClusterNodes,
    pub(super) health: ClusterHealth,
    pub(super) replication: Option<Replication>,
    pub(super) has_keys: bool,
    /// Moves of slots it takes part in, those that ended among them; only asked for while slots move.
    pub(super) migrations: Vec<SlotMigration>,
    /// How many keys it holds of slots that are half moved, at whichever server.
    pub(super) keys_in_open_slots: BTreeMap<u16, u64>,
    pub(super) users: Listed,
    /// It did not take the password, and let us in without one.
    pub(super) by_fallback: bool,
    /// It shows its primary another password than the one in use.
    pub(super) shows_old_password: bool,
}

impl ServerFacts {
    /// Slots that it was told to give or to take and that have not moved yet. What replicas say of them is an echo.
    pub(super) fn open_slots(&self) -> impl Iterator<Item = u16> {
        let primary = self.nodes.myself().filter(|myself| !myself.is_replica());
        primary
            .into_iter()
            .flat_map(|myself| myself.migrating.iter().chain(&myself.importing))
            .map(|one| one.slot)
    }
}

/// What is known of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ServerView {
    /// There is no pod with an address to ask.
    #[default]
    NotAsked,
    /// It is reading its data.
    Loading,
    /// It wants other credentials.
    NotAuthenticated(String),
    /// It does not answer, or not as a member of a cluster.
    Unreachable(String),
    /// It answers.
    Answering(Box<ServerFacts>),
}

impl ServerView {
    /// Only if it is the server that is looked for: addresses are used again, and the wrong one must not be told anything.
    pub(super) fn if_called(self, host: &str) -> Self {
        let known = self.facts().and_then(|facts| facts.nodes.myself()?.address.hostname.as_deref());
        match known {
            Some(other) if other != host => {
                Self::Unreachable(format!("the server {other} answers at its address"))
            }
            _ => self,
        }
    }

    pub(super) fn facts(&self) -> Option<&ServerFacts> {
        match self {
            Self::Answering(facts) => Some(facts),
            _ => None,
        }
    }
}

/// How to get into the servers of a cluster.
#[derive(Clone, Default)]
pub(super) struct Keys {
    /// Of the operator's user: the one in use, then those that a server may know instead.
    passwords: Vec<SecretString>,
    /// With which servers copy data from each other.
    pub(super) replication: Option<SecretString>,
    /// The same, once it has changed: until then servers show their primaries what they started with.
    renewed: Option<SecretString>,
    tls: Option<Tls>,
}

impl Keys {
    pub(super) fn new(held: &Passwords, tls: Option<Tls>) -> Self {
        let replication = held.users.get(&SystemUser::Replication);
        Self {
            passwords: held.accepted(SystemUser::Operator),
            replication: replication.map(|password| password.current.clone()),
            renewed: replication
                .filter(|password| password.previous.is_some())
                .map(|password| password.current.clone()),
            tls,
        }
    }

    fn target(&self, address: &str, password: Option<&SecretString>) -> Target {
        let deadlines = Deadlines { connect: Duration::from_millis(1500), command: Duration::from_secs(3) };
        let mut target = Target::tcp(address, api::names::SERVER_PORT).with_deadlines(deadlines);
        if let Some(password) = password {
            target = target.with_credentials(Some(SystemUser::Operator.name()), password.clone());
        }
        if let Some(tls) = &self.tls {
            target = target.with_tls(tls.clone());
        }
        target
    }

    /// Open a connection; whether it was let in without a password, all of which were refused. Only a refusal of the
    /// password leads there, never a broken line.
    pub(super) async fn open(&self, address: &str) -> Result<(Connection, bool), Error> {
        let mut refusal = None;
        for password in &self.passwords {
            match Connection::open(&self.target(address, Some(password))).await {
                Ok(connection) => return Ok((connection, false)),
                Err(error @ (Error::AuthRequired { .. } | Error::WrongPassword { .. })) => {
                    // What the server says of the password in use is what people should read.
                    refusal.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        let opened = Connection::open(&self.target(address, None)).await;
        match refusal {
            None => opened.map(|connection| (connection, false)),
            Some(refusal) => match opened {
                // A server that wants a password lets everybody connect, and then do nothing.
                Ok(connection) if connection.ping().await.is_ok() => Ok((connection, true)),
                _ => Err(refusal),
            },
        }
    }

    /// Whether a server follows its primary with another password than the one in use.
    async fn shows_old_password(&self, connection: &Connection) -> Result<bool, Error> {
        let Some(wanted) = &self.renewed else { return Ok(false) };
        let shown = connection.config_get(&[PRIMARYAUTH]).await?;
        Ok(shown.get(PRIMARYAUTH).map(String::as_str) != Some(wanted.expose_secret()))
    }
}

/// Ask a server, within the deadlines of the client.
pub(super) async fn ask(keys: &Keys, address: &str, slots_move: bool) -> ServerView {
    match facts(keys, address, slots_move).await {
        Ok(Some(facts)) => ServerView::Answering(Box::new(facts)),
        Ok(None) | Err(Error::Loading { .. }) => ServerView::Loading,
        Err(error) if error.is_auth() => ServerView::NotAuthenticated(kit::telemetry::chain(&error)),
        Err(error) => ServerView::Unreachable(kit::telemetry::chain(&error)),
    }
}

async fn facts(keys: &Keys, address: &str, slots_move: bool) -> Result<Option<ServerFacts>, Error> {
    let (connection, by_fallback) = keys.open(address).await?;
    let sections = [Section::Server, Section::Replication, Section::Persistence, Section::Keyspace];
    let (info, nodes, health, users) = futures::try_join!(
        connection.info(&sections),
        connection.cluster_nodes(),
        connection.cluster_health(),
        connection.acl_list(),
    )?;
    // A loading server answers these, but no command on data.
    if info.loading() {
        return Ok(None);
    }
    let mut migrations = Vec::new();
    if slots_move && info.server().version.is_some_and(Version::supports_atomic_slot_migration) {
        migrations = connection.cluster_slot_migrations().await?;
    }
    let shows_old_password = keys.shows_old_password(&connection).await?;
    let facts = ServerFacts::of(&info, nodes, health, users);
    Ok(facts.map(|facts| ServerFacts { migrations, by_fallback, shows_old_password, ..facts }))
}

impl ServerFacts {
    /// What every answer holds; nothing, if the server does not know itself.
    fn of(info: &Info, nodes: ClusterNodes, health: ClusterHealth, users: Listed) -> Option<Self> {
        let server = info.server();
        Some(Self {
            id: nodes.myself()?.id.clone(),
            run_id: server.run_id.unwrap_or_default(),
            uptime: server.uptime_seconds.map(Duration::from_secs),
            version: server.version,
            zone: server.availability_zone,
            health,
            replication: info.replication(),
            has_keys: info.fields().any(|(name, _)| name.starts_with("db")),
            migrations: Vec::new(),
            keys_in_open_slots: BTreeMap::new(),
            users,
            by_fallback: false,
            shows_old_password: false,
            nodes,
        })
    }
}

/// What an agent tells of its server, as if that one had been asked; nothing, if that would be something else.
pub(super) fn told(keys: &Keys, report: &Report) -> Option<ServerFacts> {
    let ServerState::Up(server) = &report.server else { return None };
    let health = ClusterHealth::read(&Info::parse(&server.cluster_info))?;
    let nodes = ClusterNodes::parse(&server.cluster_nodes);
    let facts = ServerFacts::of(&Info::parse(&server.info), nodes, health, Listed::parse(&server.users))?;
    let shows_old_password = keys
        .renewed
        .as_ref()
        .is_some_and(|wanted| server.primary_password.as_deref() != Some(hash_password(wanted).as_str()));
    Some(ServerFacts { shows_old_password, ..facts })
}

/// Ask how many keys of these slots a server holds.
pub(super) async fn count_keys(
    keys: &Keys,
    address: &str,
    slots: &[u16],
) -> Result<BTreeMap<u16, u64>, Error> {
    let (connection, _) = keys.open(address).await?;
    let mut counted = BTreeMap::new();
    for slot in slots {
        counted.insert(*slot, connection.cluster_count_keys_in_slot(*slot).await?);
    }
    Ok(counted)
}
