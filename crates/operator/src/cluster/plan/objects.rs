//! The objects of a cluster that must be written: Secrets before the nodes whose pods mount them, names before the pods
//! that have them.

use std::collections::BTreeSet;

use api::ValkeyCertificateBinding;
use api::certificates::Component;
use api::cluster::{BudgetMode, PodDisruptionBudgetMode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::agent_form::AgentForm;
use super::super::build;
use super::super::observe::{Observed, ObservedNode};
use super::super::topology::Place;
use super::super::users::Users;
use super::super::validate::Desired;
use super::Orders;
use crate::objects::{Kind, Write, difference};

/// Every write that is needed, in order.
pub(super) fn writes(desired: &Desired, observed: &Observed, users: &Users, orders: &Orders) -> Vec<Write> {
    let identity = &desired.identity;
    let mut writes = Vec::new();
    let passwords = build::passwords(identity, &users.passwords);
    writes.extend(difference(passwords, observed.passwords.as_deref()));
    if let Some(file) = &users.file {
        writes.extend(difference(build::users_file(identity, &file.text), observed.users_file.as_deref()));
    }
    if desired.has_certificates {
        writes.extend(certificates(desired, observed));
    }
    writes.extend(difference(build::headless_service(identity), observed.headless_service.as_deref()));
    writes.extend(difference(build::client_service(identity), observed.client_service.as_deref()));
    if wants_budget(desired) {
        let budget = build::budget(identity, pods(desired, observed), orders.budget);
        writes.extend(difference(budget, observed.budget.as_deref()));
    }
    // First nodes first: those that are scheduled later are kept away from them, not the other way round.
    let mut places: Vec<Place> = desired.places().collect();
    places.sort_by_key(|(shard, index)| (*index, *shard));
    for (shard, index) in places {
        let there = observed.nodes.get(&(shard, index));
        // A pod sees a Secret that comes after it only when its kubelet looks again, which may be a minute later.
        if there.is_none() && desired.has_certificates && observed.certificates.is_awaited((shard, index)) {
            continue;
        }
        let form = agent_form(there, orders, desired, (shard, index));
        let wanted = build::node(desired, shard, index, revision(there, orders, (shard, index)), &form);
        writes.extend(difference(wanted, there.map(|node| node.node.as_ref())));
    }
    writes
}

/// The agent that a node's pod has, or gets: a pod that is made gets the newest, and so does one that is restarted anyhow.
fn agent_form(there: Option<&ObservedNode>, orders: &Orders, desired: &Desired, place: Place) -> AgentForm {
    let known = there.filter(|_| !orders.renewed.contains(&place)).and_then(|node| AgentForm::of(&node.node));
    known.unwrap_or_else(|| desired.agent.clone())
}

/// The cluster's authority and everybody's certificate, before the nodes that will have them.
fn certificates(desired: &Desired, observed: &Observed) -> Vec<Write> {
    let (identity, there) = (&desired.identity, &observed.certificates);
    let mut writes = Vec::new();
    writes.extend(difference(build::bundle(identity), there.bundle.as_deref()));
    writes.extend(difference(
        build::operator_binding(identity),
        there.operator.as_deref().map(only_ours).as_ref(),
    ));
    let places: BTreeSet<Place> = desired.places().chain(observed.nodes.keys().copied()).collect();
    for (shard, index) in &places {
        let wanted = build::node_binding(desired, *shard, *index);
        let live = there.nodes.get(&(*shard, *index)).map(|binding| only_ours(binding));
        writes.extend(difference(wanted, live.as_ref()));
    }
    // What is not ours is not taken over, and what cannot be read is of a newer operator.
    writes.retain(|write| !there.untouchable.contains(write.name()));
    // With its binding the Secret goes, and with that the key: nobody may be taken for a node that is gone.
    let gone = there.nodes.iter().filter(|(place, _)| !places.contains(place));
    writes.extend(gone.filter_map(|(_, binding)| delete(&binding.metadata)));
    writes
}

/// A binding without certificates that somebody else added: they are welcome to.
fn only_ours(binding: &ValkeyCertificateBinding) -> ValkeyCertificateBinding {
    let mut own = binding.clone();
    own.spec.certificates.retain(|one| matches!(one.component, Component::Sidecar | Component::Operator));
    own
}

fn delete(binding: &ObjectMeta) -> Option<Write> {
    Some(Write::Delete {
        kind: Kind::ValkeyCertificateBinding,
        name: binding.name.clone()?,
        uid: binding.uid.clone()?,
        resource_version: binding.resource_version.clone()?,
    })
    .filter(|_| binding.deletion_timestamp.is_none())
}

/// The revision that a node may run: the one it was allowed before, unless another is ordered.
fn revision<'a>(there: Option<&'a ObservedNode>, orders: &'a Orders, place: Place) -> Option<&'a str> {
    let before = || there.and_then(|node| node.node.spec.workload_revision.as_deref());
    orders.revisions.get(&place).map(String::as_str).or_else(before)
}

/// Whether the user wants a budget.
pub(in super::super) fn wants_budget(desired: &Desired) -> bool {
    let mode = desired.spec.pod_disruption_budget.as_ref().map(|settings| settings.mode);
    mode.unwrap_or_default() == PodDisruptionBudgetMode::Cluster
}

/// Nodes that are leaving count for as long as they are there.
fn pods(desired: &Desired, observed: &Observed) -> u32 {
    u32::try_from(observed.nodes.len()).unwrap_or(u32::MAX).max(desired.node_count())
}

/// The budget while things are as they are.
pub(super) fn budget_mode(every_shard_has_a_copy: bool) -> BudgetMode {
    if every_shard_has_a_copy { BudgetMode::Normal } else { BudgetMode::Locked }
}
