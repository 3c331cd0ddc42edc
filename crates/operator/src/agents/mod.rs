//! Having the agent beside a server do what the operator's own user may not, by gRPC over a channel on which both ends are known. A
//! channel lasts for one question: there are few of them, and there is nothing to keep.

#[cfg(test)]
pub(crate) mod tests;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use api::{keys, names};
use channel::{AskError, Called, Doorbell as _, Line, Whom};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use pki::{Home, Identity, Role};
use proto::agent::agent_client::AgentClient;
use proto::agent::{Directive, LONGEST, SetDirectivesRequest, Setting};
use snafu::{OptionExt as _, ResultExt as _, Snafu};

use crate::heartbeats::{Agent, Reception};

/// For a question and its answer, the channel included. An agent gives its server less.
const WITHIN: Duration = Duration::from_secs(4);

/// Why an agent did not set directives. Never holds a value.
#[derive(Debug, Snafu)]
pub(crate) enum Error {
    #[snafu(display("failed to call {agent}: there is no certificate of its cluster to show"))]
    FindCertificate { agent: Identity },
    #[snafu(display("failed to ask {agent}"))]
    Ask {
        agent: Identity,
        #[snafu(source(from(AskError, Box::new)))]
        source: Box<AskError>,
    },
    /// The server said no, or the agent does not set such a directive.
    #[snafu(display("{words}"))]
    Refused { words: String },
    #[snafu(display("{agent} failed to set directives: {words}"))]
    Set { agent: Identity, words: String },
}

impl Error {
    /// No agent that knows such orders has heard it.
    fn is_unheard(&self) -> bool {
        match self {
            Self::FindCertificate { .. } => true,
            Self::Ask { source, .. } => source.is_unheard(),
            Self::Refused { .. } | Self::Set { .. } => false,
        }
    }

    /// The words of a no to these directives.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused { words } => Some(words),
            _ => None,
        }
    }
}

/// The agent beside a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    identity: Identity,
    address: SocketAddr,
    pod_uid: String,
}

impl Beside {
    /// The agent in the pod of a node, if the pod is somewhere.
    pub(crate) fn new(home: Home, node: &str, pod: &str, pod_uid: &str, ip: &str) -> Option<Self> {
        // Pods of a Deployment have names that nobody knows before: their certificate is for the workload.
        let known_as = Some(names::pod(node)).filter(|name| name == pod).unwrap_or(names::workload(node));
        let Home { trust_domain, namespace, cluster } = home;
        let role = Role::Sidecar;
        let ip: IpAddr = ip.parse().ok()?;
        Some(Self {
            identity: Identity { trust_domain, namespace, cluster, role, pod: Some(known_as) },
            address: SocketAddr::new(ip, names::SIDECAR_PORT),
            pod_uid: pod_uid.to_owned(),
        })
    }

    /// The agent in this pod, if there is one that takes orders.
    pub(crate) fn in_pod(pod: &Pod, reception: &Reception, now: Instant) -> Option<Self> {
        let (labels, uid) = (pod.labels(), pod.metadata.uid.as_deref()?);
        let (cluster, node) = (labels.get(keys::CLUSTER)?, labels.get(keys::INSTANCE)?);
        if !takes_orders(reception.agent_in(pod, now), reception.obeys(uid, now)) {
            return None;
        }
        let home = reception.home(pod.metadata.namespace.as_deref()?, cluster);
        Self::new(home, node, pod.metadata.name.as_deref()?, uid, pod.status.as_ref()?.pod_ip.as_deref()?)
    }
}

/// Whether an agent is given orders: of one that has not told yet whether it follows them, that is found out.
pub(crate) fn takes_orders(agent: Agent, obeys: Option<bool>) -> bool {
    agent != Agent::Absent && obeys != Some(false)
}

/// Why directives are not set.
#[derive(Debug)]
pub(crate) enum Unset<E> {
    Agent(Error),
    Directly(E),
}

/// Have directives set: by the agent beside the server, and directly if there is none, or none that can be reached.
pub(crate) async fn set<E>(
    agent: Option<&Beside>,
    reception: &Reception,
    directives: &[(&str, &str)],
    directly: impl AsyncFnOnce() -> Result<(), E>,
) -> Result<(), Unset<E>> {
    if let Some(agent) = agent {
        match order(agent, reception, directives).await {
            Err(error) if error.is_unheard() => {
                let error = kit::telemetry::chain(&error);
                tracing::warn!(%error, "an agent was called in vain; its server is told directly");
                reception.called_in_vain(&agent.pod_uid, Instant::now());
            }
            done => {
                reception.answered(&agent.pod_uid);
                return done.map_err(Unset::Agent);
            }
        }
    }
    directly().await.map_err(Unset::Directly)
}

async fn order(agent: &Beside, reception: &Reception, directives: &[(&str, &str)]) -> Result<(), Error> {
    let Beside { identity: who, address, .. } = agent;
    let credentials =
        reception.credentials(&who.home()).context(FindCertificateSnafu { agent: who.clone() })?;
    let called = Called { address: *address, whom: Whom::Just(who.clone()) };
    let directive =
        |(name, value): &(&str, &str)| Directive { name: (*name).to_owned(), value: (*value).to_owned() };
    let request = SetDirectivesRequest { directives: directives.iter().map(directive).collect() };
    let put = async |line: Line| {
        let origin = line.origin();
        let mut agent = AgentClient::with_origin(line, origin).max_decoding_message_size(LONGEST);
        agent.set_directives(request).await
    };
    let reply =
        channel::ask(&called, &credentials, WITHIN, put).await.context(AskSnafu { agent: who.clone() })?;
    match reply.setting() {
        Setting::Taken => Ok(()),
        Setting::Refused | Setting::NotAllowed => RefusedSnafu { words: reply.words }.fail(),
        Setting::Failed | Setting::Unspecified => SetSnafu { agent: who.clone(), words: reply.words }.fail(),
    }
}
