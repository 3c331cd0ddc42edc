//! What the program can be told from outside: the only place that reads flags and environment.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use clap::Parser;

use crate::settings::{self, Settings};

/// Runs Valkey on Kubernetes.
#[derive(Clone, Debug, Parser)]
#[command(name = "valkey-operator", version)]
pub struct Args {
    /// Namespaces to work in, separated by commas; all namespaces if not given.
    #[arg(long, env = "WATCH_NAMESPACES", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,

    /// Namespace of the leader election's Lease and of the roots' Secrets: the operator's own.
    #[arg(long, env = "POD_NAMESPACE", default_value = settings::NAMESPACE)]
    pub namespace: String,

    /// Who this replica is in the leader election: the pod's name.
    #[arg(long, env = "POD_NAME", default_value = "valkey-operator")]
    pub identity: String,

    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    #[arg(long, env = "HTTP_ADDRESS", default_value = "0.0.0.0:8080")]
    pub http_address: SocketAddr,

    /// Where the replica that leads listens for the agents in pods.
    #[arg(long, env = "AGENTS_ADDRESS", default_value = "0.0.0.0:17379")]
    pub agents_address: SocketAddr,

    /// Image of the servers of clusters that name none.
    #[arg(long, env = "VALKEY_IMAGE", default_value = settings::SERVER_IMAGE)]
    pub valkey_image: String,

    /// Image of the metrics exporters of clusters that name none.
    #[arg(long, env = "EXPORTER_IMAGE", default_value = settings::EXPORTER_IMAGE)]
    pub exporter_image: String,

    /// Image that holds the agent: the operator's own.
    #[arg(long, env = "AGENT_IMAGE", default_value = settings::AGENT_IMAGE)]
    pub agent_image: String,

    /// First part of the identities in certificates (`spiffe://<trust domain>/…`). Another one makes every certificate anew.
    #[arg(long, env = "TRUST_DOMAIN", default_value = settings::TRUST_DOMAIN, value_parser = trust_domain)]
    pub trust_domain: String,

    /// Give clusters certificates and an agent beside each server, which tells the operator how it is.
    #[arg(long, env = "SIDECARS", default_value_t = true, action = clap::ArgAction::Set)]
    pub sidecars: bool,

    /// Level of the logs, for example `info` or `info,kube=debug`.
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// A name that identities can begin with: certificates with another one would be of nobody.
fn trust_domain(text: &str) -> Result<String, String> {
    let trial = format!("spiffe://{text}/ns/a/valkeycluster/a/operator").parse::<pki::Identity>();
    trial.map(|_| text.to_owned()).map_err(|_| "it must be a DNS name in small letters".to_owned())
}

impl Args {
    /// What everything the operator makes is given.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            server_image: self.valkey_image.clone(),
            exporter_image: self.exporter_image.clone(),
            agent_image: self.agent_image.clone(),
            namespace: self.namespace.clone(),
            trust_domain: self.trust_domain.clone(),
            sidecars: self.sidecars,
        }
    }

    /// The scopes to watch: each namespace for itself, or one scope for all.
    pub(crate) fn scopes(&self) -> Vec<Option<String>> {
        let named: Vec<Option<String>> = self
            .watch_namespaces
            .iter()
            .map(|name| name.trim())
            .filter(|name| !name.is_empty())
            .map(|name| Some(name.to_owned()))
            .collect();
        // Two controllers in one namespace would fight each other.
        let named: BTreeSet<Option<String>> = named.into_iter().collect();
        if named.is_empty() { vec![None] } else { named.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trust_domain_is_a_name_that_identities_can_have() {
        assert!(trust_domain(settings::TRUST_DOMAIN).is_ok());
        for wrong in ["", "Corp.Example", "corp_example", "a/b", "a..b", "a b"] {
            assert!(trust_domain(wrong).is_err(), "{wrong}");
        }
    }
}
