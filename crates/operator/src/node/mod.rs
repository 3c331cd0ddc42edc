//! The controller of `ValkeyNode`: one Valkey server in one pod.
//!
//! A pass of [`reconcile`] is always the same five steps:
//!
//! 1. `validate` (pure): the spec becomes a [`validate::Desired`], or a list of what is wrong with it.
//! 2. `observe` (I/O): caches, uncached objects and the server itself become plain data.
//! 3. `plan` (pure): what to write, what to tell the server, at most one disruptive step.
//! 4. `act` (I/O): do it, in that order, stopping at the first failure.
//! 5. `status` (pure, written once): what a user reads, also after a failure.
//!
//! Nothing is deleted here but a bare pod that must be replaced: Kubernetes' garbage collector takes everything else
//! away with the node, so there is no finalizer that could block a deletion.

mod access;
mod act;
mod build;
mod context;
mod diagnose;
mod events;
mod observe;
mod plan;
mod server;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod watches;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{ValkeyNode, ValkeyNodeStatus, keys};
use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};
use snafu::ResultExt as _;

use context::Guarded;
pub(crate) use context::{Caches, Context};
use observe::Source;
pub(crate) use watches::control;

use crate::pass::{self, ActSnafu, Error, Report};

/// How often a node that is well is looked at: a server on a lost machine is noticed by us long before Kubernetes
/// notices the machine, but only if we ask.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How soon a node is looked at after something was just written: the watches usually call earlier.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// How long after what was heard has ceased to count.
const A_MOMENT: Duration = Duration::from_millis(500);
/// Name of this controller in metrics.
pub(crate) const KIND: &str = "ValkeyNode";

async fn reconcile(guarded: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Error> {
    let started = Instant::now();
    context.queue.leave(&ObjectRef::from_obj(&*guarded));
    context.metrics.waiting(KIND, context.queue.len());
    let result = match &guarded.0 {
        Ok(node) if node.meta().deletion_timestamp.is_some() => Ok(("deleting", Action::await_change())),
        Ok(node) => pass(node, &context).await,
        // Its text would quote what it could not read, which may be a secret.
        Err(_) => {
            tracing::error!(node = %guarded.name_any(), "the object does not fit the types of this version; it is left alone");
            Ok(("unreadable", Action::await_change()))
        }
    };
    let outcome = match &result {
        Ok((outcome, _)) => outcome,
        Err(error) => error.category(),
    };
    context.metrics.observe(KIND, outcome, started.elapsed());
    let (_, action) = result?;
    context.backoff.succeeded(&ObjectRef::from_obj(&*guarded));
    Ok(action)
}

#[tracing::instrument(name = "node", skip_all, fields(namespace = node.namespace(), name = node.name_any()))]
async fn pass(node: &ValkeyNode, context: &Context) -> Result<(&'static str, Action), Error> {
    let before = node.status.clone().unwrap_or_default();
    let desired = match validate::validate(node) {
        Ok(desired) => desired,
        Err(violations) => {
            let after = status::invalid(&violations, node.meta().generation, &before, Timestamp::now());
            report(node, &before, &after, context).await?;
            return Ok(("invalid", Action::await_change()));
        }
    };
    let mut observed = observe::observe(&desired, &node.spec, &before, Source::Agent, context).await;
    let mut plan = plan::plan(&desired, &observed, &before);
    if let Some(hearsay) = observed.hearsay {
        let outcome = act::Outcome::default();
        let after = status::status(&desired, &observed, &plan, &outcome, &before, Timestamp::now());
        if plan.is_idle() && after == before {
            let pause = LOOK_AGAIN + spread(&desired.identity.uid);
            return Ok(("heard", Action::requeue(pause.min(hearsay.holds_for + A_MOMENT))));
        }
        observed = observe::observe(&desired, &node.spec, &before, Source::Server, context).await;
        plan = plan::plan(&desired, &observed, &before);
    }
    let outcome = act::act(&desired, &node.spec, &observed, &plan, context).await;
    let after = status::status(&desired, &observed, &plan, &outcome, &before, Timestamp::now());
    report(node, &before, &after, context).await?;
    let acted = !outcome.written.is_empty() || outcome.pod_deleted.is_some();
    if let Some(error) = outcome.error {
        return Err(error).context(ActSnafu { kind: KIND, object: node.name_any() });
    }
    Ok(next(acted, after.ready, &desired.identity.uid))
}

fn next(acted: bool, ready: bool, uid: &str) -> (&'static str, Action) {
    match (acted, ready) {
        (true, _) => ("acted", Action::requeue(LOOK_SOON)),
        (false, true) => ("converged", Action::requeue(LOOK_AGAIN + spread(uid))),
        (false, false) => ("waiting", Action::requeue(LOOK_AGAIN)),
    }
}

/// Nodes that were created together must not be asked together forever.
fn spread(uid: &str) -> Duration {
    let sum: u64 = uid.bytes().map(u64::from).sum();
    Duration::from_millis((sum * 37) % 1000)
}

/// Write the status if it changed, and tell of transitions.
async fn report(
    node: &ValkeyNode,
    before: &ValkeyNodeStatus,
    after: &ValkeyNodeStatus,
    context: &Context,
) -> Result<(), Error> {
    if before == after {
        return Ok(());
    }
    let report = Report {
        client: &context.client,
        recorder: &context.recorder,
        kind: KIND,
        manager: keys::NODE_FIELD_MANAGER,
    };
    report.write_status(node, after).await?;
    report.tell(node, &events::between(before, after)).await;
    Ok(())
}

fn on_error(guarded: &Guarded, error: &Error, context: &Context) -> Action {
    pass::failed(guarded, error, KIND, &context.backoff, &context.metrics)
}
