//! The controller of `ValkeyCluster`: a sharded Valkey with replicas, made of ValkeyNodes.
//!
//! A pass of [`reconcile`] is always the same five steps:
//!
//! 1. `validate` (pure): the spec becomes a [`validate::Desired`], or a list of what is wrong with it.
//! 2. `observe` (I/O): caches and every server become plain data; `topology` puts together who is who.
//! 3. `plan` (pure): what to write, what to tell which server, at most one disruptive step.
//! 4. `act` (I/O): do it, in that order, stopping at the first failure.
//! 5. `status` (pure, written once): what a user reads, also after a failure.

mod act;
mod agent_form;
mod build;
mod command;
mod context;
mod directives;
mod events;
mod half_moved;
mod numbers;
mod observe;
mod obstacle;
mod paths;
mod patience;
mod plan;
mod promotions;
mod server;
mod slot_move;
mod status;
#[cfg(test)]
mod tests;
mod tls;
mod topology;
mod users;
mod validate;
mod watches;
mod zones;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::condition::ClusterReason;
use api::{ValkeyCluster, ValkeyClusterStatus, keys};
use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::runtime::events::Event;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};
use snafu::IntoError as _;

use context::Guarded;
pub(crate) use context::{Caches, Context};
use patience::Look;
use topology::Topology;
pub(crate) use watches::control;

use crate::pass::{self, ActSnafu, Error, Report};

/// How often a cluster that is well is looked at: its nodes tell of most changes earlier.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How often a cluster that is not well is looked at.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// How often servers that settle things among themselves are looked at.
const LOOK_AT_ONCE: Duration = Duration::from_millis(150);
/// How long after what was heard has ceased to count.
const A_MOMENT: Duration = Duration::from_millis(500);
/// Name of this controller in metrics.
pub(crate) const KIND: &str = "ValkeyCluster";

async fn reconcile(guarded: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Error> {
    let started = Instant::now();
    context.queue.leave(&ObjectRef::from_obj(&*guarded));
    context.metrics.waiting(KIND, context.queue.len());
    let result = match &guarded.0 {
        Ok(cluster) if cluster.meta().deletion_timestamp.is_some() => {
            context.metrics.clusters.forget(&measured(cluster));
            Ok(("deleting", Action::await_change()))
        }
        Ok(cluster) => pass(cluster, &context).await,
        // Its text would quote what it could not read, which may be a secret.
        Err(_) => {
            tracing::error!(cluster = %guarded.name_any(), "the object does not fit the types of this version; it is left alone");
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

#[tracing::instrument(name = "cluster", skip_all, fields(namespace = cluster.namespace(), name = cluster.name_any()))]
async fn pass(cluster: &ValkeyCluster, context: &Context) -> Result<(&'static str, Action), Error> {
    let before = cluster.status.clone().unwrap_or_default();
    let mut desired = match validate::validate(cluster, &context.settings) {
        Ok(desired) => desired,
        Err(violations) => {
            let problem = status::Problem::violations(&violations);
            let after = status::halted(&problem, cluster.meta().generation, &before, Timestamp::now());
            context.metrics.clusters.set_phase(&measured(cluster), numbers::phase(&after));
            report(cluster, &before, &after, Vec::new(), context).await?;
            return Ok(("invalid", Action::await_change()));
        }
    };
    let tls = match tls::gather(&mut desired, context).await {
        Ok(tls) => tls,
        Err(message) => {
            let problem = status::Problem { reason: ClusterReason::TlsSecretUnusable, message };
            let after = status::halted(&problem, cluster.meta().generation, &before, Timestamp::now());
            context.metrics.clusters.set_phase(&measured(cluster), numbers::phase(&after));
            report(cluster, &before, &after, Vec::new(), context).await?;
            return Ok(("waiting", Action::requeue(LOOK_AGAIN)));
        }
    };
    if let Some(heard) = listen(&desired, tls.clone(), &before, context).await {
        context.metrics.clusters.set(&measured(cluster), &heard.numbers);
        return Ok(("heard", Action::requeue(LOOK_AGAIN.min(heard.holds_for + A_MOMENT))));
    }
    let slots_move = before.orchestration.as_ref().is_some_and(|known| plan::moves_slots(&known.name));
    let (observed, keys) = observe::observe(&desired, tls, slots_move, context).await;
    let topology = Topology::of(&observed, &desired.identity.namespace);
    let users = users::gather(&desired, &observed, &topology, &before, &keys, context).await;
    let in_flight = context.promotions.in_flight(&desired.identity.uid, Instant::now());
    let open = plan::open_slots(&topology);
    let left_behind = context.half_moved.left_behind(&desired.identity.uid, &open, Instant::now());
    let plan = plan::plan(&desired, &observed, &topology, &users, &before, &in_flight, &left_behind);
    context.promotions.began(&desired.identity.uid, &plan.promotions, Instant::now());
    let outcome = act::act(&desired, &observed, &plan, &keys, context).await;
    let seen = status::Seen { desired: &desired, observed: &observed, topology: &topology, users: &users };
    let now = Timestamp::now();
    let after = status::status(&seen, &plan, &outcome, &before, now);
    let numbers = numbers::numbers(&seen, &outcome, &before, &after, now);
    context.metrics.clusters.set(&measured(cluster), &numbers);
    let deeds = plan.deeds.iter().chain(&outcome.deeds);
    report(cluster, &before, &after, events::deeds(deeds, &desired.identity.namespace), context).await?;
    let acted = !outcome.written.is_empty() || outcome.commands > 0;
    if let Some(error) = outcome.error {
        let failed = ActSnafu { kind: KIND, object: cluster.name_any() }.into_error(error);
        // What servers do among themselves is no news of Kubernetes: to wait longer and longer would leave them alone.
        return if plan.is_healing() { Ok(healing_on(&failed, context)) } else { Err(failed) };
    }
    let (settles, gets_on) = (plan.settling || acted, before != after);
    let look = context.patience.look(&desired.identity.uid, settles, gets_on, Instant::now());
    Ok(next(acted, look, &plan, &after))
}

/// What is to be measured of a cluster whose agents tell that all is as it was, and as it should be. Nobody is asked then; in any
/// other case everybody is.
async fn listen(
    desired: &validate::Desired,
    tls: Option<valkey::Tls>,
    before: &ValkeyClusterStatus,
    context: &Context,
) -> Option<Heard> {
    // Whatever goes through the cluster needs to know how it is now. With TLS, whether clients get in depends on a certificate that
    // the agent does not see. Without certificates there is nobody to listen to.
    let is_at_rest =
        before.phase == Some(api::cluster::ClusterPhase::Ready) && before.orchestration.is_none();
    if !is_at_rest || tls.is_some() || !desired.has_certificates {
        return None;
    }
    let (observed, keys, holds_for) = observe::listen(desired, tls, context).await?;
    let topology = Topology::of(&observed, &desired.identity.namespace);
    let users = users::gather(desired, &observed, &topology, before, &keys, context).await;
    let in_flight = context.promotions.in_flight(&desired.identity.uid, Instant::now());
    let left_behind = BTreeSet::new();
    let plan = plan::plan(desired, &observed, &topology, &users, before, &in_flight, &left_behind);
    let seen = status::Seen { desired, observed: &observed, topology: &topology, users: &users };
    let (outcome, now) = (act::Outcome::default(), Timestamp::now());
    let after = status::status(&seen, &plan, &outcome, before, now);
    if !plan.is_idle() || after != *before {
        return None;
    }
    // What was remembered of slots that were open, and of things that went on, is over: later ones are others.
    context.half_moved.left_behind(&desired.identity.uid, &BTreeSet::new(), Instant::now());
    context.patience.look(&desired.identity.uid, false, false, Instant::now());
    Some(Heard { numbers: numbers::numbers(&seen, &outcome, before, &after, now), holds_for })
}

/// A cluster of which its agents tell that all is well.
struct Heard {
    numbers: kit::metrics::Numbers,
    /// For so long that counts, if nothing more is heard.
    holds_for: Duration,
}

/// The cluster a series is about.
fn measured(cluster: &ValkeyCluster) -> kit::metrics::Cluster {
    kit::metrics::Cluster { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() }
}

/// Something could not be written, and servers are being mended all the same.
fn healing_on(failed: &Error, context: &Context) -> (&'static str, Action) {
    let category = pass::counted(failed, KIND, &context.metrics);
    if category != pass::ENDING {
        tracing::warn!(error = %kit::telemetry::chain(failed), "healing goes on although something cannot be written");
    }
    (category, Action::requeue(LOOK_SOON))
}

fn next(acted: bool, look: Look, plan: &plan::Plan, after: &ValkeyClusterStatus) -> (&'static str, Action) {
    if plan.waits_for_slots() {
        return ("moving", Action::requeue(look.at_moves_after));
    }
    if !look.closely && (plan.settling || acted) {
        return ("settling", Action::requeue(LOOK_SOON));
    }
    if plan.settling {
        return ("settling", Action::requeue(LOOK_AT_ONCE));
    }
    match (acted, after.phase) {
        (true, _) => ("acted", Action::requeue(LOOK_AT_ONCE)),
        (false, Some(api::cluster::ClusterPhase::Ready)) if plan.watching => {
            ("watching", Action::requeue(LOOK_SOON))
        }
        (false, Some(api::cluster::ClusterPhase::Ready)) => ("converged", Action::requeue(LOOK_AGAIN)),
        (false, _) => ("waiting", Action::requeue(LOOK_SOON)),
    }
}

/// Write the status if it changed, and tell of transitions and deeds.
async fn report(
    cluster: &ValkeyCluster,
    before: &ValkeyClusterStatus,
    after: &ValkeyClusterStatus,
    deeds: Vec<Event>,
    context: &Context,
) -> Result<(), Error> {
    let report = Report {
        client: &context.client,
        recorder: &context.recorder,
        kind: KIND,
        manager: keys::CLUSTER_FIELD_MANAGER,
    };
    let mut told = deeds;
    if before != after {
        report.write_status(cluster, after).await?;
        told.extend(events::between(before, after));
    }
    report.tell(cluster, &told).await;
    Ok(())
}

fn on_error(guarded: &Guarded, error: &Error, context: &Context) -> Action {
    pass::failed(guarded, error, KIND, &context.backoff, &context.metrics)
}
