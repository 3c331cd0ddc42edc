//! Asking a node's server what it is. The node controller only looks; topology commands are its owner's business.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use api::node::{Access, ObservedRole};
use k8s_openapi::api::core::v1::Pod;
use proto::heartbeat::{Report, ServerState};
use valkey::client::Section;
use valkey::cluster::ClusterNodes;
use valkey::{Connection, Error, Info, Target};

use super::access;
use super::build::Identity;
use super::context::Context;
use crate::agents::{self, Beside, Unset};

/// A second try tells a lost packet from a lost machine.
const TRIES: u32 = 2;

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerFacts {
    pub(super) version: Option<String>,
    pub(super) supported: bool,
    /// Changes with every start of the server.
    pub(super) run_id: String,
    pub(super) role: Option<ObservedRole>,
    /// Address of the primary, if this is a replica.
    pub(super) replica_of: Option<String>,
    /// The directives of the spec, as the server reports them.
    pub(super) config: BTreeMap<String, String>,
}

/// What is known of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ServerView {
    /// There is no ready pod to ask.
    #[default]
    NotAsked,
    /// What the spec refers to is missing or unusable.
    AccessUnavailable(String),
    /// It wants other credentials.
    NotAuthenticated(String),
    /// It could not be verified, or did not accept our certificate.
    NotTrusted(String),
    /// It is reading its data.
    Loading,
    /// It runs a script that does not end.
    Busy(String),
    /// It does not answer.
    Unreachable(String),
    /// It answers.
    Answering(Arc<ServerFacts>),
}

/// Ask a server, within the deadlines of the client.
pub(super) async fn ask(
    context: &Context,
    identity: &Identity,
    access: Option<&Access>,
    address: &str,
    config: &BTreeMap<String, String>,
) -> ServerView {
    let mut view = ServerView::NotAsked;
    for _ in 0..TRIES {
        let target = match access::target(context, &identity.namespace, access, address).await {
            Ok(target) => target,
            Err(error) => return ServerView::AccessUnavailable(kit::telemetry::chain(&error)),
        };
        view = match facts(&target, config).await {
            Ok(view) => return view,
            Err(error) => classify(&error),
        };
        match view {
            ServerView::Unreachable(_) => {}
            // The Secret may have been changed since it was read: the second try reads it anew.
            ServerView::NotAuthenticated(_) | ServerView::NotTrusted(_) => {
                context.secrets.forget(&identity.namespace);
            }
            _ => return view,
        }
    }
    view
}

/// Change directives of the running server; all or none of them. The agent beside it does so, if there is one.
pub(super) async fn set_config(
    context: &Context,
    namespace: &str,
    access: Option<&Access>,
    pod: &Pod,
    directives: &[(String, String)],
) -> Result<(), SetConfigError> {
    let directives: Vec<(&str, &str)> =
        directives.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).unwrap_or_default();
    let directly = async || {
        let target = access::target(context, namespace, access, address).await;
        let connection = Connection::open(&target.map_err(SetConfigError::Access)?).await;
        let set = connection.map_err(SetConfigError::Server)?.config_set(&directives).await;
        set.map_err(SetConfigError::Server)
    };
    let agent = Beside::in_pod(pod, &context.reception, Instant::now());
    let set = agents::set(agent.as_ref(), &context.reception, &directives, directly).await;
    set.map_err(|unset| match unset {
        Unset::Agent(error) => SetConfigError::Agent(error),
        Unset::Directly(error) => error,
    })
}

/// Why directives could not be changed.
#[derive(Debug)]
pub(super) enum SetConfigError {
    Access(access::Error),
    Server(Error),
    Agent(agents::Error),
}

impl SetConfigError {
    /// The server's own words, if it answered and said no.
    pub(super) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Server(error @ Error::Server { .. }) => error.server_message(),
            // Being busy, or wanting other rights, says nothing about the directives.
            Self::Server(_) | Self::Access(_) => None,
            Self::Agent(error) => error.refusal(),
        }
    }
}

impl std::fmt::Display for SetConfigError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Access(error) => formatter.write_str(&kit::telemetry::chain(error)),
            Self::Server(error) => formatter.write_str(&kit::telemetry::chain(error)),
            Self::Agent(error) => formatter.write_str(&kit::telemetry::chain(error)),
        }
    }
}

fn classify(error: &Error) -> ServerView {
    let message = kit::telemetry::chain(error);
    match error {
        _ if error.is_auth() => ServerView::NotAuthenticated(message),
        Error::Loading { .. } => ServerView::Loading,
        Error::Busy { .. } => ServerView::Busy(message),
        Error::Tls { .. } => ServerView::NotTrusted(message),
        _ => ServerView::Unreachable(message),
    }
}

async fn facts(target: &Target, config: &BTreeMap<String, String>) -> Result<ServerView, Error> {
    let connection = Connection::open(target).await?;
    let sections = [Section::Server, Section::Replication, Section::Cluster, Section::Persistence];
    let info = connection.info(&sections).await?;
    // A loading server answers INFO and CONFIG, but no command on data.
    if info.loading() {
        return Ok(ServerView::Loading);
    }
    let (role, replica_of) = if info.cluster_enabled() {
        cluster_role(&connection.cluster_nodes().await?)
    } else {
        replication_role(&info)
    };
    let names: Vec<&str> = config.keys().map(String::as_str).collect();
    let reported = if names.is_empty() { BTreeMap::new() } else { connection.config_get(&names).await? };
    let facts = ServerFacts { role, replica_of, config: reported, ..ServerFacts::of(&info) };
    Ok(ServerView::Answering(Arc::new(facts)))
}

impl ServerFacts {
    /// Who a server is.
    fn of(info: &Info) -> Self {
        let server = info.server();
        Self {
            supported: valkey::Support::of(&server) == valkey::Support::Supported,
            version: server.version.map(|version| version.to_string()),
            run_id: server.run_id.unwrap_or_default(),
            role: None,
            replica_of: None,
            config: BTreeMap::new(),
        }
    }
}

/// What an agent tells of its server, as if that one had been asked; nothing, if that would be something else.
pub(super) fn told(report: &Report, config: &BTreeMap<String, String>) -> Option<ServerView> {
    let ServerState::Up(server) = &report.server else { return None };
    let directive = |name: &String| Some((name.clone(), server.config.get(name)?.clone()));
    let reported = config.keys().map(directive).collect::<Option<_>>()?;
    let nodes = ClusterNodes::parse(&server.cluster_nodes);
    nodes.myself()?;
    let (role, replica_of) = cluster_role(&nodes);
    let facts =
        ServerFacts { role, replica_of, config: reported, ..ServerFacts::of(&Info::parse(&server.info)) };
    Some(ServerView::Answering(Arc::new(facts)))
}

fn replication_role(info: &valkey::Info) -> (Option<ObservedRole>, Option<String>) {
    match info.replication() {
        None => (None, None),
        Some(replication) => match replication.role {
            valkey::info::ReplicationRole::Primary => (Some(ObservedRole::Primary), None),
            valkey::info::ReplicationRole::Replica => {
                (Some(ObservedRole::Replica), replication.primary.map(|primary| primary.host))
            }
        },
    }
}

/// In cluster mode the replication role lies: a replica that restarts calls itself a primary for seconds. Who owns
/// slots is a primary, who follows somebody is a replica, and anybody else has no role yet.
fn cluster_role(nodes: &ClusterNodes) -> (Option<ObservedRole>, Option<String>) {
    let Some(myself) = nodes.myself() else { return (None, None) };
    if !nodes.slots_of_myself().is_empty() {
        return (Some(ObservedRole::Primary), None);
    }
    if myself.is_replica() {
        let primary = myself.primary_id.as_deref().and_then(|id| nodes.get(id));
        return (Some(ObservedRole::Replica), primary.map(|primary| primary.address.ip.clone()));
    }
    (None, None)
}
