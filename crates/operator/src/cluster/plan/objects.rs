//! The objects of a cluster that must be written: Secrets before the nodes whose pods mount them, names before the pods
//! that have them.

use api::cluster::{BudgetMode, PodDisruptionBudgetMode};

use super::super::build;
use super::super::observe::{Observed, ObservedNode};
use super::super::topology::Place;
use super::super::users::Users;
use super::super::validate::Desired;
use super::Orders;
use crate::objects::{Write, difference};

/// Every write that is needed, in order.
pub(super) fn writes(desired: &Desired, observed: &Observed, users: &Users, orders: &Orders) -> Vec<Write> {
    let identity = &desired.identity;
    let mut writes = Vec::new();
    let passwords = build::passwords(identity, &users.passwords);
    writes.extend(difference(passwords, observed.passwords.as_deref()));
    if let Some(file) = &users.file {
        writes.extend(difference(build::users_file(identity, &file.text), observed.users_file.as_deref()));
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
        let wanted = build::node(desired, shard, index, revision(there, orders, (shard, index)));
        writes.extend(difference(wanted, there.map(|node| node.node.as_ref())));
    }
    writes
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
