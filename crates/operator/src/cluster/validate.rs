//! From what a user wrote to what can be built: after this step nobody looks for mistakes in the spec again, and
//! building cannot fail.

use std::collections::{BTreeMap, BTreeSet};

use api::cluster::{Exporter, Images, User};
use api::node::{PersistenceMode, SecretKey, TlsAccess};
use api::{ValkeyCluster, ValkeyClusterSpec, ValkeyClusterStatus, keys, names};
use serde_json::{Value, json};

use super::agent_form::AgentForm;
use super::build::Identity;
use super::directives::{self, Directives};
use crate::settings::Settings;
use crate::violation::Violation;

/// Whether data outlives its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Volatile,
    Kept,
}

/// The images the pods run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodImages {
    pub(super) server: String,
    pub(super) exporter: String,
}

/// A cluster as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    pub(super) identity: Identity,
    pub(super) spec: ValkeyClusterSpec,
    pub(super) shards: u32,
    pub(super) replicas: u32,
    pub(super) images: PodImages,
    /// Everybody in the cluster has a certificate, or is about to.
    pub(super) has_certificates: bool,
    /// The operator's defaults that this cluster was made with; they stay.
    pub(super) pinned: Images,
    /// The agent of pods that are made from now on.
    pub(super) agent: AgentForm,
    pub(super) exporter: Option<Exporter>,
    pub(super) data: Data,
    pub(super) config: BTreeMap<String, String>,
    /// Directives that the user wrote in vain.
    pub(super) ignored_directives: Vec<String>,
    pub(super) container_overlays: Vec<Value>,
    pub(super) users: Vec<User>,
    pub(super) tls_secret: Option<String>,
    /// How the operator reaches servers that speak TLS.
    pub(super) access_tls: Option<TlsAccess>,
    /// The user gave their word that data may be lost.
    pub(super) data_loss_accepted: bool,
    /// Nodes whose servers are dead by the user's word.
    pub(super) dead_nodes: BTreeSet<String>,
    /// When the user last asked for a restart.
    pub(super) restarted_at: Option<String>,
    /// The user's last order to give the system users new passwords.
    pub(super) rotation: Option<String>,
}

impl Desired {
    /// How many nodes there should be.
    pub(super) fn node_count(&self) -> u32 {
        self.shards * (self.replicas + 1)
    }

    /// Every place a node should be at.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, u32)> {
        let replicas = self.replicas;
        (0..self.shards).flat_map(move |shard| (0..=replicas).map(move |index| (shard, index)))
    }
}

/// Check a cluster and complete it.
pub(super) fn validate(cluster: &ValkeyCluster, settings: &Settings) -> Result<Desired, Vec<Violation>> {
    let Some(identity) = Identity::of(cluster) else {
        return Err(vec![Violation::new("metadata", "has no name, namespace or uid")]);
    };
    let spec = &cluster.spec;
    let mut violations = check_name(&identity.name);
    let shards = number("spec.shards", spec.shards, 1, 500, &mut violations);
    let replicas = number("spec.replicas", spec.replicas, 0, 10, &mut violations);
    let pinned = pinned(cluster.status.as_ref(), settings);
    let tls_secret = spec
        .networking
        .as_ref()
        .and_then(|networking| networking.tls.as_ref())
        .map(|tls| tls.certificates.server.secret_name.clone());
    let data = data(spec);
    let Directives { all, ignored } = directives::directives(&spec.config, data, tls_secret.is_some());
    check_directives(&all, &mut violations);
    check_spelling(&spec.config, &mut violations);
    let container_overlays = container_overlays(&spec.containers, &mut violations);
    let template = spec.pod_template.as_ref().and_then(|template| template.spec.as_ref());
    let templates =
        template.and_then(|template| template["containers"].as_array()).map_or(&[][..], Vec::as_slice);
    check_command("spec.containers", &spec.containers, &mut violations);
    check_command("spec.podTemplate.spec.containers", templates, &mut violations);
    check_probes([&spec.containers, templates], &mut violations);
    // A pod of theirs that has a container called like one of ours cannot have ours.
    let has_container = spec.containers.iter().chain(templates).any(is_sidecar);
    check_users(&spec.users, &mut violations);
    if !violations.is_empty() {
        return Err(violations);
    }
    let exporter =
        Some(spec.exporter.clone().unwrap_or_else(|| Exporter { enabled: true, ..Exporter::default() }))
            .filter(|exporter| exporter.enabled);
    let images = PodImages {
        server: spec.image.clone().or_else(|| pinned.server.clone()).unwrap_or_default(),
        exporter: exporter
            .as_ref()
            .and_then(|exporter| exporter.image.clone())
            .or_else(|| pinned.exporter.clone())
            .unwrap_or_default(),
    };
    Ok(Desired {
        shards,
        replicas,
        images,
        has_certificates: settings.sidecars,
        agent: agent_form(&pinned, has_container, settings),
        pinned,
        exporter,
        data,
        config: all,
        ignored_directives: ignored,
        container_overlays,
        users: spec.users.clone(),
        access_tls: tls_secret.as_deref().map(access_tls),
        data_loss_accepted: annotation(cluster, keys::ACCEPT_DATA_LOSS).as_deref() == Some("true"),
        dead_nodes: annotation(cluster, keys::DEAD_NODES).as_deref().map(list).unwrap_or_default(),
        restarted_at: annotation(cluster, keys::RESTARTED_AT),
        rotation: annotation(cluster, keys::ROTATE_SYSTEM_PASSWORDS).filter(|order| !order.is_empty()),
        tls_secret,
        spec: spec.clone(),
        identity,
    })
}

fn annotation(cluster: &ValkeyCluster, key: &str) -> Option<String> {
    cluster.metadata.annotations.as_ref()?.get(key).cloned()
}

/// Names with commas between them.
fn list(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn check_name(name: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    if name.len() > names::CLUSTER_NAME_MAX {
        let problem = format!("has more than {} characters", names::CLUSTER_NAME_MAX);
        violations.push(Violation::new("metadata.name", problem));
    }
    if name.contains('.') {
        violations
            .push(Violation::new("metadata.name", "contains a dot, but Services have single DNS labels"));
    }
    violations
}

fn number(field: &str, value: i32, least: u32, most: u32, violations: &mut Vec<Violation>) -> u32 {
    match u32::try_from(value) {
        Ok(number) if (least..=most).contains(&number) => number,
        _ => {
            violations.push(Violation::new(field, format!("must be between {least} and {most}")));
            least
        }
    }
}

/// What the operator's defaults were when the cluster was made: a newer operator with other defaults moves no server.
fn pinned(status: Option<&ValkeyClusterStatus>, settings: &Settings) -> Images {
    let known = status.and_then(|status| status.images.clone()).unwrap_or_default();
    Images {
        server: known.server.or_else(|| Some(settings.server_image.clone())),
        exporter: known.exporter.or_else(|| Some(settings.exporter_image.clone())),
        agent: known.agent.or_else(|| Some(settings.agent_image.clone())),
    }
}

/// The agent beside a server is the operator's own, and both speak to each other: pods that are made get the newest.
fn agent_form(pinned: &Images, has_container: bool, settings: &Settings) -> AgentForm {
    if !settings.sidecars || has_container {
        return AgentForm { image: pinned.agent.clone().unwrap_or_default(), operator: None };
    }
    let operator = format!("{}.{}.svc:{}", names::AGENTS_SERVICE, settings.namespace, names::AGENTS_PORT);
    AgentForm { image: settings.agent_image.clone(), operator: Some(operator) }
}

fn data(spec: &ValkeyClusterSpec) -> Data {
    match spec.persistence.as_ref().map(api::node::Persistence::effective_mode) {
        None | Some(PersistenceMode::Disabled) => Data::Volatile,
        Some(PersistenceMode::Enabled | PersistenceMode::External) => Data::Kept,
    }
}

fn check_directives(config: &BTreeMap<String, String>, violations: &mut Vec<Violation>) {
    if let Err(error) = valkey::conf::Directives::new(config) {
        violations.push(Violation::new("spec.config", error.to_string()));
    }
}

/// Two spellings of one name would overwrite each other.
fn check_spelling(config: &BTreeMap<String, String>, violations: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for name in config.keys() {
        if !seen.insert(name.to_ascii_lowercase()) {
            let problem = format!("has {} twice, in different spelling: keep one", name.to_ascii_lowercase());
            violations.push(Violation::new("spec.config", problem));
        }
    }
}

fn is_server(container: &Value) -> bool {
    [names::SERVER_CONTAINER, "server"].iter().any(|name| container["name"].as_str() == Some(name))
}

fn is_sidecar(container: &Value) -> bool {
    container["name"].as_str() == Some(names::SIDECAR_CONTAINER)
}

/// Without the agent in front of it, a server that lost its data would come back as the primary it was.
fn check_command(field: &str, containers: &[Value], violations: &mut Vec<Violation>) {
    for (position, _) in
        containers.iter().enumerate().filter(|(_, one)| is_server(one) && one.get("command").is_some())
    {
        let problem =
            "cannot be replaced: the operator's agent starts the server; write directives into config";
        violations.push(Violation::new(&format!("{field}[{position}].command"), problem));
    }
}

/// One of the agent's probes must stay: a server that is back as a primary takes no write before the agent lets it.
fn check_probes(containers: [&[Value]; 2], violations: &mut Vec<Violation>) {
    let is_replaced = |probe: &str| {
        let mut servers = containers.into_iter().flatten().filter(|one| is_server(one));
        servers.any(|one| one[probe]["exec"]["command"].is_array())
    };
    if ["startupProbe", "readinessProbe"].into_iter().all(is_replaced) {
        let problem = "startupProbe and readinessProbe of the server cannot both be replaced: the operator's agent needs one of \
                       them to let a server that is back take writes";
        violations.push(Violation::new("spec.containers", problem));
    }
}

/// The official operator calls the server's container `server`.
fn container_overlays(containers: &[Value], violations: &mut Vec<Violation>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let mut overlays = Vec::new();
    for (position, container) in containers.iter().enumerate() {
        let Some(name) = container.get("name").and_then(Value::as_str) else {
            violations.push(Violation::new(&format!("spec.containers[{position}].name"), "is missing"));
            continue;
        };
        let name = if name == "server" { names::SERVER_CONTAINER } else { name };
        if !seen.insert(name.to_owned()) {
            let problem = "names a container that another item names too";
            violations.push(Violation::new(&format!("spec.containers[{position}].name"), problem));
        }
        let mut overlay = container.clone();
        overlay["name"] = json!(name);
        overlays.push(overlay);
    }
    overlays
}

fn check_users(users: &[User], violations: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for (position, user) in users.iter().enumerate() {
        let field = format!("spec.users[{position}].name");
        if user.name.starts_with('_') {
            violations
                .push(Violation::new(&field, "usernames starting with '_' are reserved for system users"));
        }
        if user.name.is_empty() || user.name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            violations.push(Violation::new(&field, "is empty or has a blank in it"));
        }
        if !seen.insert(&user.name) {
            violations.push(Violation::new(&field, "is given twice"));
        }
    }
}

fn access_tls(secret: &str) -> TlsAccess {
    TlsAccess {
        ca: SecretKey { name: secret.to_owned(), key: "ca.crt".to_owned() },
        client_certificate: None,
        server_name: None,
    }
}
