//! Doing what the plan says, in its order, stopping at the first thing that does not work.

use std::sync::Arc;

use api::{ValkeyNodeSpec, keys};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::build::Kind;
use super::context::Context;
use super::observe::{Collision, Observed, controlled_by, is_my_claim};
use super::plan::{LiveConfig, Plan, Step, Write};
use super::server::{self, SetConfigError};
use super::validate::Desired;
use crate::objects::{Stopped, Writer};

/// How the directives for the running server went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ConfigOutcome {
    /// Nothing was to be told.
    #[default]
    Untouched,
    /// The server took them.
    Accepted,
    /// It said no, in these words.
    Refused(String),
    /// It could not be told; tried again with the next pass.
    Failed(String),
}

/// What came of a plan.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Objects written, as `Kind name`.
    pub(super) written: Vec<String>,
    pub(super) config: ConfigOutcome,
    pub(super) collision: Option<Collision>,
    pub(super) pod_deleted: Option<&'static str>,
    /// The first call that failed: no other kind of object was tried after it.
    pub(super) error: Option<kit::apply::Error>,
}

impl Outcome {
    fn stopped_by(self, stopped: Stopped) -> Self {
        match stopped {
            Stopped::Taken(collision) => Self { collision: Some(collision), ..self },
            Stopped::Failed(error) => Self { error: Some(error), ..self },
        }
    }
}

/// Act.
pub(super) async fn act(
    desired: &Desired,
    spec: &ValkeyNodeSpec,
    observed: &Observed,
    plan: &Plan,
    context: &Context,
) -> Outcome {
    let mut outcome = Outcome::default();
    let writer = writer(desired, context);
    let ours = |kind, meta: &ObjectMeta| is_ours(desired, kind, meta);
    let performed = writer.perform_all(&plan.writes, ours, &mut outcome.written).await;
    if let Err(stopped) = performed {
        return outcome.stopped_by(stopped);
    }
    outcome.config = set_config(desired, spec, observed, plan, context).await;
    let file_waits = plan.writes_after_config.iter().any(Write::is_file);
    match outcome.config {
        ConfigOutcome::Refused(_) => return outcome,
        // The pod must not be replaced before the file that it starts from is there.
        ConfigOutcome::Failed(_) if file_waits => return outcome,
        _ => {}
    }
    let performed = writer.perform_all(&plan.writes_after_config, ours, &mut outcome.written).await;
    if let Err(stopped) = performed {
        return outcome.stopped_by(stopped);
    }
    if let Some(step) = &plan.step {
        take(&writer, step, &mut outcome).await;
    }
    outcome
}

async fn set_config(
    desired: &Desired,
    spec: &ValkeyNodeSpec,
    observed: &Observed,
    plan: &Plan,
    context: &Context,
) -> ConfigOutcome {
    let LiveConfig::Set(directives, _) = &plan.config.live else { return ConfigOutcome::Untouched };
    let has_address = |pod: &&Arc<Pod>| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
    let Some(pod) = observed.pod.as_ref().filter(has_address) else { return ConfigOutcome::Untouched };
    let namespace = &desired.identity.namespace;
    let names: Vec<&str> = directives.iter().map(|(name, _)| name.as_str()).collect();
    match server::set_config(context, namespace, spec.access.as_ref(), pod, directives).await {
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

async fn take(writer: &Writer<'_>, step: &Step, outcome: &mut Outcome) {
    let Step::DeletePod { name, uid, resource_version, because } = step;
    tracing::info!(pod = %name, because, "deleting the pod");
    match writer.objects(Kind::Pod).delete(name, uid, resource_version).await {
        Ok(()) => outcome.pod_deleted = Some(because),
        // Somebody else was faster, or it changed: the next pass looks again.
        Err(error) if error.is_not_found() || error.is_conflict() => {}
        Err(error) => outcome.error = Some(error),
    }
}

fn writer<'a>(desired: &'a Desired, context: &'a Context) -> Writer<'a> {
    Writer {
        client: &context.client,
        namespace: &desired.identity.namespace,
        manager: keys::NODE_FIELD_MANAGER,
    }
}

fn is_ours(desired: &Desired, kind: Kind, meta: &ObjectMeta) -> bool {
    match kind {
        Kind::PersistentVolumeClaim => is_my_claim(meta, &desired.identity),
        _ => controlled_by(meta, Some(&desired.identity.uid)),
    }
}
