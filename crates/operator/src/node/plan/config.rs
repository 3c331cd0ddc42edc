//! Which directives the running server must be told, and which have to wait for its next start.

use std::collections::BTreeSet;

use api::ValkeyNodeStatus;
use api::condition::{NodeCondition, NodeReason};
use api::node::RunningConfig;
use api::{keys, names};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use serde_json::json;

use super::super::observe::Observed;
use super::super::server::{ServerFacts, ServerView};
use super::super::validate::{Desired, needs_restart};
use super::Roll;

/// What the running server needs to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum LiveConfig {
    /// It cannot be asked.
    NotObserved,
    /// Another image is on its way: that server decides, not this one.
    Deferred,
    /// It has everything.
    Settled(RunningConfig),
    /// It must be told these, all at once; afterwards the second is true.
    Set(Vec<(String, String)>, RunningConfig),
    /// It already said no to exactly this spec.
    Refused(String),
    /// It said no to exactly this spec, and cannot be asked now.
    RefusedBefore(String),
}

/// The plan for the directives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct ConfigPlan {
    pub(in super::super) live: LiveConfig,
    /// Directives (by name) that the server takes only when it starts.
    pub(in super::super) awaiting_restart: Vec<String>,
}

impl ConfigPlan {
    /// Whether the file may be written in this pass. One for another image, or with directives that need a restart,
    /// stays back until the owner allows it: the old server might be restarted from it.
    pub(super) fn file_may_change(&self, roll: &Roll) -> bool {
        match self.live {
            LiveConfig::Refused(_) | LiveConfig::RefusedBefore(_) => false,
            _ if !roll.waits_for_owner() => true,
            // A server that restarts by itself must not take what its owner has not allowed yet; of a silent one
            // nobody knows what it would take.
            LiveConfig::Deferred | LiveConfig::NotObserved => false,
            LiveConfig::Settled(_) | LiveConfig::Set(..) => self.awaiting_restart.is_empty(),
        }
    }
}

/// Decide.
pub(super) fn plan(desired: &Desired, observed: &Observed, status: &ValkeyNodeStatus) -> ConfigPlan {
    let (ServerView::Answering(facts), Some(pod)) = (&observed.server, observed.pod.as_deref()) else {
        // A silence must not let a refused directive into the file: the server would not start from it again.
        let live = refused_before(desired, status).map_or(LiveConfig::NotObserved, LiveConfig::RefusedBefore);
        return ConfigPlan { live, awaiting_restart: Vec::new() };
    };
    if server_image(pod) != Some(&desired.image) {
        return ConfigPlan { live: LiveConfig::Deferred, awaiting_restart: Vec::new() };
    }
    let running = running_config(desired, facts, pod, status);
    ConfigPlan {
        awaiting_restart: awaiting_restart(desired, pod, &running),
        live: live_config(desired, facts, running, status),
    }
}

fn server_image(pod: &Pod) -> Option<&String> {
    let containers = &pod.spec.as_ref()?.containers;
    containers.iter().find(|container| container.name == names::SERVER_CONTAINER)?.image.as_ref()
}

/// What will be true of this run of the server once it has the directives. Names of directives it was given earlier
/// stay: a directive that is taken out of the spec keeps its value until the server starts again.
fn running_config(
    desired: &Desired,
    facts: &ServerFacts,
    pod: &Pod,
    status: &ValkeyNodeStatus,
) -> RunningConfig {
    let run = kit::digest::of_value(&json!([pod.meta().uid, facts.run_id]));
    let given: BTreeSet<String> = status
        .running_config
        .iter()
        .filter(|known| known.run == run)
        .flat_map(|known| known.keys.iter().cloned())
        .chain(desired.config.keys().cloned())
        .collect();
    RunningConfig {
        revision: kit::digest::of_value(&json!([run, desired.config])),
        keys: given.into_iter().collect(),
        run,
    }
}

fn live_config(
    desired: &Desired,
    facts: &ServerFacts,
    running: RunningConfig,
    status: &ValkeyNodeStatus,
) -> LiveConfig {
    let known = status.running_config.as_ref();
    if known.is_some_and(|known| known.revision == running.revision) {
        return LiveConfig::Settled(running);
    }
    if let Some(words) = refused_before(desired, status)
        && known.is_none_or(|known| known.run == running.run)
    {
        return LiveConfig::Refused(words);
    }
    let set: Vec<(String, String)> = desired
        .config
        .iter()
        .filter(|(name, _)| !needs_restart(name))
        .filter(|(name, wanted)| {
            facts.config.get(*name).is_none_or(|reported| !valkey::conf::equivalent(name, wanted, reported))
        })
        .map(|(name, wanted)| (name.clone(), wanted.clone()))
        .collect();
    if set.is_empty() { LiveConfig::Settled(running) } else { LiveConfig::Set(set, running) }
}

/// The same directives are not offered twice to the same server, and never reach its file.
fn refused_before(desired: &Desired, status: &ValkeyNodeStatus) -> Option<String> {
    if status.refused_config.as_ref() != Some(&digest(desired)) {
        return None;
    }
    let refused: &'static str = NodeReason::ServerRefused.into();
    let condition = status.condition(NodeCondition::LiveConfigApplied);
    let words =
        condition.filter(|condition| condition.reason == refused).map(|condition| condition.message.clone());
    Some(words.unwrap_or_else(|| "the server refused these directives before".to_owned()))
}

/// Hash of the directives, whatever server they are for.
pub(in super::super) fn digest(desired: &Desired) -> String {
    kit::digest::of_value(&json!(desired.config))
}

/// A pod says in an annotation which restart-only directives it was started with. A directive that is gone from the
/// spec still works in the server until then.
fn awaiting_restart(desired: &Desired, pod: &Pod, running: &RunningConfig) -> Vec<String> {
    let started_with = pod.meta().annotations.as_ref().and_then(|all| all.get(keys::RESTART_CONFIG));
    let fixed_changed = started_with != Some(&desired.restart_config);
    let removed = running.keys.iter().filter(|name| !desired.config.contains_key(*name));
    let fixed = desired.config.keys().filter(|name| fixed_changed && needs_restart(name));
    removed.chain(fixed).cloned().collect()
}
