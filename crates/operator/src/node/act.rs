//! Doing what the plan says, in its order, stopping at the first thing that does not work.

use api::{ValkeyNodeSpec, keys};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use kit::apply::Objects;
use kube::Client;

use super::build::{Kind, Wanted};
use super::context::Context;
use super::observe::{Collision, Observed, collision, controlled_by, is_my_claim};
use super::plan::{LiveConfig, Plan, Step, Write};
use super::server::{self, SetConfigError};
use super::validate::Desired;

/// How the directives for the running server went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConfigOutcome {
    /// Nothing was to be told.
    Untouched,
    /// The server took them.
    Accepted,
    /// It said no, in these words.
    Refused(String),
    /// It could not be told; tried again with the next pass.
    Failed(String),
}

/// What came of a plan.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Objects written, as `Kind name`.
    pub(super) written: Vec<String>,
    pub(super) config: ConfigOutcome,
    pub(super) collision: Option<Collision>,
    pub(super) pod_deleted: Option<&'static str>,
    /// The first call that failed: nothing after it was tried.
    pub(super) error: Option<kit::apply::Error>,
}

/// Act.
pub(super) async fn act(
    desired: &Desired,
    spec: &ValkeyNodeSpec,
    observed: &Observed,
    plan: &Plan,
    context: &Context,
) -> Outcome {
    let mut outcome = Outcome {
        written: Vec::new(),
        config: ConfigOutcome::Untouched,
        collision: None,
        pod_deleted: None,
        error: None,
    };
    if !write_all(desired, &plan.writes, context, &mut outcome).await {
        return outcome;
    }
    outcome.config = set_config(desired, spec, observed, plan, context).await;
    let file_waits = plan.writes_after_config.iter().any(Write::is_file);
    match outcome.config {
        ConfigOutcome::Refused(_) => return outcome,
        // The pod must not be replaced before the file that it starts from is there.
        ConfigOutcome::Failed(_) if file_waits => return outcome,
        _ => {}
    }
    if !write_all(desired, &plan.writes_after_config, context, &mut outcome).await {
        return outcome;
    }
    if let Some(step) = &plan.step {
        take(desired, step, context, &mut outcome).await;
    }
    outcome
}

async fn write_all(desired: &Desired, writes: &[Write], context: &Context, outcome: &mut Outcome) -> bool {
    for write in writes {
        match perform(desired, write, context).await {
            Ok(Performed::Written(what)) => outcome.written.push(what),
            Ok(Performed::Taken(collision)) => {
                outcome.collision = Some(collision);
                return false;
            }
            Err(error) => {
                outcome.error = Some(error);
                return false;
            }
        }
    }
    true
}

enum Performed {
    Written(String),
    Taken(Collision),
}

async fn perform(
    desired: &Desired,
    write: &Write,
    context: &Context,
) -> Result<Performed, kit::apply::Error> {
    let namespace = &desired.identity.namespace;
    let manager = keys::NODE_FIELD_MANAGER;
    let (kind, name) = match write {
        Write::Apply { wanted, create, because } => {
            let objects = objects(wanted.kind, &context.client, namespace);
            let holder = if *create { held_by(desired, wanted, &objects).await? } else { Holder::Us };
            if let Holder::Other(collision) = holder {
                return Ok(Performed::Taken(collision));
            }
            // Without force nothing is taken from anybody who was faster; what is ours is ours by force.
            let force = matches!(holder, Holder::Us);
            objects.apply(&wanted.name, manager, &wanted.body, force).await?;
            if !create {
                tracing::info!(kind = wanted.kind.name(), object = %wanted.name, ?because, "updated");
            }
            (wanted.kind, &wanted.name)
        }
        Write::Merge { kind, name, body } => {
            objects(*kind, &context.client, namespace).merge(name, manager, body).await?;
            (*kind, name)
        }
        Write::RemoveItems { kind, name, resource_version, pointers } => {
            let objects = objects(*kind, &context.client, namespace);
            objects.remove_items(name, manager, resource_version, pointers).await?;
            tracing::info!(kind = kind.name(), object = %name, ?pointers, "removed what others had added");
            (*kind, name)
        }
    };
    Ok(Performed::Written(format!("{} {name}", kind.name())))
}

enum Holder {
    Nobody,
    Us,
    Other(Collision),
}

/// The caches hold only objects with our label: before something is created, whoever has the name is asked for. It may
/// be our own object, from which somebody took the label.
async fn held_by(desired: &Desired, wanted: &Wanted, objects: &Objects) -> Result<Holder, kit::apply::Error> {
    let Some(meta) = objects.holder(&wanted.name).await? else { return Ok(Holder::Nobody) };
    let ours = match wanted.kind {
        Kind::PersistentVolumeClaim => is_my_claim(&meta, &desired.identity),
        _ => controlled_by(&meta, Some(&desired.identity.uid)),
    };
    Ok(if ours { Holder::Us } else { Holder::Other(collision(wanted.kind, &wanted.name, &meta)) })
}

async fn set_config(
    desired: &Desired,
    spec: &ValkeyNodeSpec,
    observed: &Observed,
    plan: &Plan,
    context: &Context,
) -> ConfigOutcome {
    let LiveConfig::Set(directives, _) = &plan.config.live else { return ConfigOutcome::Untouched };
    let address =
        observed.pod.as_ref().and_then(|pod| pod.status.as_ref()).and_then(|status| status.pod_ip.as_deref());
    let Some(address) = address else { return ConfigOutcome::Untouched };
    let namespace = &desired.identity.namespace;
    let names: Vec<&str> = directives.iter().map(|(name, _)| name.as_str()).collect();
    match server::set_config(context, namespace, spec.access.as_ref(), address, directives).await {
        Ok(()) => {
            tracing::info!(directives = ?names, "the running server took new directives");
            ConfigOutcome::Accepted
        }
        Err(error) => refused_or_failed(&error),
    }
}

fn refused_or_failed(error: &SetConfigError) -> ConfigOutcome {
    match error.refusal() {
        Some(words) => ConfigOutcome::Refused(words.to_owned()),
        None => ConfigOutcome::Failed(error.to_string()),
    }
}

async fn take(desired: &Desired, step: &Step, context: &Context, outcome: &mut Outcome) {
    let Step::DeletePod { name, uid, resource_version, because } = step;
    tracing::info!(pod = %name, because, "deleting the pod");
    let objects = objects(Kind::Pod, &context.client, &desired.identity.namespace);
    match objects.delete(name, uid, resource_version).await {
        Ok(()) => outcome.pod_deleted = Some(because),
        // Somebody else was faster, or it changed: the next pass looks again.
        Err(error) if error.is_not_found() || error.is_conflict() => {}
        Err(error) => outcome.error = Some(error),
    }
}

fn objects(kind: Kind, client: &Client, namespace: &str) -> Objects {
    match kind {
        Kind::PersistentVolumeClaim => Objects::of::<PersistentVolumeClaim>(client, namespace),
        Kind::ConfigMap => Objects::of::<ConfigMap>(client, namespace),
        Kind::Service => Objects::of::<Service>(client, namespace),
        Kind::StatefulSet => Objects::of::<StatefulSet>(client, namespace),
        Kind::Deployment => Objects::of::<Deployment>(client, namespace),
        Kind::Pod => Objects::of::<Pod>(client, namespace),
    }
}
