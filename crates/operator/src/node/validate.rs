//! From what a user wrote to what can be built: after this step nobody looks into the raw spec again, and building
//! cannot fail.

use std::collections::BTreeMap;

use api::node::{Persistence, PersistenceMode, ReclaimPolicy, UpdateStrategy, WorkloadType};
use api::{ValkeyNode, keys, names};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;
use valkey::conf::{self, Directives};

use super::build::{self, Identity};
use crate::overlay;
use crate::violation::Violation;

/// Directives the operator decides: it runs the server in the foreground, with its data in the volume.
const OWNED_DIRECTIVES: [&str; 4] = ["include", "daemonize", "supervised", "dir"];

/// What the server needs to be reachable in a pod at all; a directive of the spec wins over these.
const BASE_DIRECTIVES: [(&str, &str); 2] = [("dir", "/data"), ("protected-mode", "no")];

/// Where the data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    InPod,
    Own(OwnClaim),
    External(String),
}

/// A claim that the operator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnClaim {
    pub(super) size: String,
    pub(super) storage_class_name: Option<String>,
    pub(super) reclaim_policy: ReclaimPolicy,
}

/// A node as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    pub(super) identity: Identity,
    pub(super) workload_type: WorkloadType,
    pub(super) update_strategy: UpdateStrategy,
    /// Complete, with its revision in an annotation.
    pub(super) template: PodTemplateSpec,
    pub(super) revision: String,
    pub(super) image: String,
    /// The file the server starts from.
    pub(super) rendered_config: String,
    /// Directives by their lower-case names.
    pub(super) config: BTreeMap<String, String>,
    /// Hash of the directives that only a restart can change.
    pub(super) restart_config: String,
    pub(super) storage: Storage,
    /// A changed template may replace the running one.
    pub(super) roll_allowed: bool,
}

impl Desired {
    /// The claim with the data, whoever made it.
    pub(super) fn claim_name(&self) -> Option<String> {
        claim_name(&self.identity, &self.storage)
    }
}

/// Check a node and complete it.
pub(super) fn validate(node: &ValkeyNode) -> Result<Desired, Vec<Violation>> {
    let Some(identity) = Identity::of(node) else {
        return Err(vec![Violation::new("metadata", "has no name, namespace or uid")]);
    };
    let spec = &node.spec;
    let mut violations = check_name(&identity.name);
    if (spec.workload_type, spec.update_strategy) == (WorkloadType::Deployment, UpdateStrategy::OnDelete) {
        violations
            .push(Violation::new("spec.updateStrategy", "OnDelete needs workloadType StatefulSet or Pod"));
    }
    let storage = storage(spec.persistence.as_ref(), &mut violations);
    let config = normalise(&spec.config, &mut violations);
    let rendered_config = render(&config, &mut violations);
    let restart_config = restart_digest(&config);
    let claim = claim_name(&identity, &storage);
    let plain = build::template(&identity, spec, claim.as_deref(), &restart_config);
    let overlay = spec.pod_template.as_ref().and_then(|template| template.spec.as_ref());
    let template = match overlay {
        None => Some(plain),
        Some(overlay) => lay_over(&plain, overlay, &mut violations),
    };
    let Some(mut template) = template.filter(|_| violations.is_empty()) else { return Err(violations) };
    let revision = stamp_revision(&mut template);
    Ok(Desired {
        roll_allowed: !identity.has_owner || spec.workload_revision.as_deref() == Some(&revision),
        workload_type: spec.workload_type,
        update_strategy: spec.update_strategy,
        image: server_image(&template).unwrap_or_else(|| spec.image.clone()),
        identity,
        template,
        revision,
        rendered_config,
        config,
        restart_config,
        storage,
    })
}

fn check_name(name: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    if name.len() > names::NODE_NAME_MAX {
        violations.push(Violation::new(
            "metadata.name",
            format!("has more than {} characters", names::NODE_NAME_MAX),
        ));
    }
    if name.contains('.') {
        violations.push(Violation::new(
            "metadata.name",
            "contains a dot, but the Service's name is a single DNS label",
        ));
    }
    violations
}

fn storage(persistence: Option<&Persistence>, violations: &mut Vec<Violation>) -> Storage {
    let Some(persistence) = persistence else { return Storage::InPod };
    match persistence.effective_mode() {
        PersistenceMode::Disabled => Storage::InPod,
        PersistenceMode::Enabled => {
            let size = persistence.size.clone().unwrap_or_default();
            if kit::quantity::milli(&size).is_none_or(|amount| amount <= 0) {
                violations
                    .push(Violation::new("spec.persistence.size", "is not a positive quantity such as 10Gi"));
            }
            Storage::Own(OwnClaim {
                size,
                storage_class_name: persistence.storage_class_name.clone(),
                reclaim_policy: persistence.reclaim_policy.unwrap_or_default(),
            })
        }
        PersistenceMode::External => {
            let claim = persistence.existing_claim.clone().unwrap_or_default();
            if claim.is_empty() {
                violations.push(Violation::new(
                    "spec.persistence.existingClaim",
                    "is required with mode: external",
                ));
            }
            Storage::External(claim)
        }
    }
}

fn claim_name(identity: &Identity, storage: &Storage) -> Option<String> {
    match storage {
        Storage::InPod => None,
        Storage::Own(_) => Some(names::data_claim(&identity.name)),
        Storage::External(claim) => Some(claim.clone()),
    }
}

/// Names in lower case (two spellings of one would fight each other) and lists with single spaces: what a server takes
/// from its file and what it takes live must be the same text.
fn normalise(config: &BTreeMap<String, String>, violations: &mut Vec<Violation>) -> BTreeMap<String, String> {
    let (owned, free): (BTreeMap<_, _>, BTreeMap<_, _>) = config
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .partition(|(name, _)| OWNED_DIRECTIVES.contains(&name.to_ascii_lowercase().as_str()));
    for name in owned.keys() {
        let field = format!("spec.config[{name:?}]");
        violations.push(Violation::new(&field, "is decided by the operator and cannot be set"));
    }
    match Directives::new(&free) {
        Ok(directives) => {
            directives.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        }
        Err(error) => {
            violations.push(Violation::new("spec.config", error.to_string()));
            BTreeMap::new()
        }
    }
}

fn render(config: &BTreeMap<String, String>, violations: &mut Vec<Violation>) -> String {
    let base = BASE_DIRECTIVES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut complete: BTreeMap<String, String> = base.collect();
    complete.extend(config.iter().map(|(name, value)| (name.clone(), value.clone())));
    match conf::render(&complete) {
        Ok(text) => text,
        Err(error) => {
            violations.push(Violation::new("spec.config", error.to_string()));
            String::new()
        }
    }
}

/// Only directives that no server can take while it runs: changing any other must not restart anything.
fn restart_digest(config: &BTreeMap<String, String>) -> String {
    let fixed: BTreeMap<&str, &str> = config
        .iter()
        .filter(|(key, _)| needs_restart(key))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    kit::digest::of_value(&json!(fixed))
}

/// Directives that no running server takes, in any version we support: which version runs is not known here, and the
/// hash must not depend on it.
pub(super) fn needs_restart(directive: &str) -> bool {
    const VERSIONS: [(u32, u32); 2] = [(8, 1), (9, 1)];
    conf::is_file_only(directive)
        || VERSIONS.iter().any(|(major, minor)| {
            conf::is_immutable(directive, valkey::Version { major: *major, minor: *minor, patch: 0 })
        })
}

fn lay_over(
    plain: &PodTemplateSpec,
    overlay: &serde_json::Value,
    violations: &mut Vec<Violation>,
) -> Option<PodTemplateSpec> {
    let mut spec = serde_json::to_value(&plain.spec).unwrap_or_default();
    overlay::lay_over(&mut spec, overlay);
    match serde_json::from_value(spec) {
        Ok(spec) => Some(PodTemplateSpec { metadata: plain.metadata.clone(), spec }),
        Err(error) => {
            violations.push(Violation::new("spec.podTemplate.spec", without_value(&error.to_string())));
            None
        }
    }
}

/// Messages of serde read `invalid type: string "…", expected …`.
fn without_value(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("has a value of the wrong type, expected {expected}"),
        None => "is not a valid pod spec".to_owned(),
    }
}

/// The revision is the hash of everything that makes a pod another pod. It goes into the template itself, so that every
/// pod says which revision it runs.
fn stamp_revision(template: &mut PodTemplateSpec) -> String {
    let revision = kit::digest::of_value(&serde_json::to_value(&*template).unwrap_or_default());
    template
        .metadata
        .get_or_insert_default()
        .annotations
        .get_or_insert_default()
        .insert(keys::WORKLOAD_REVISION.to_owned(), revision.clone());
    revision
}

fn server_image(template: &PodTemplateSpec) -> Option<String> {
    let containers = &template.spec.as_ref()?.containers;
    containers.iter().find(|container| container.name == names::SERVER_CONTAINER)?.image.clone()
}
