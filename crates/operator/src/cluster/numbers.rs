//! What a pass says of its cluster in numbers. They are set in one place, from what is decided and written anyway.

use std::time::Duration;

use api::ValkeyClusterStatus;
use api::cluster::Orchestration;
use jiff::Timestamp;
use kit::metrics::{Failover, Numbers};
use valkey::client::FailoverMode;
use valkey::cluster::{Direction, MigrationState};

use super::act::Outcome;
use super::command::Order;
use super::plan::{self, CHANGES};
use super::status::Seen;

/// The numbers of a pass.
pub(super) fn numbers(
    seen: &Seen<'_>,
    outcome: &Outcome,
    before: &ValkeyClusterStatus,
    after: &ValkeyClusterStatus,
    now: Timestamp,
) -> Numbers {
    let members = || seen.topology.members.values();
    let in_sync = after.shard_details.iter().map(|shard| {
        let copies = shard.replicas.iter().filter(|replica| replica.in_sync).count();
        copies + usize::from(shard.primary.is_some())
    });
    let failed = members().flat_map(|member| &member.facts.migrations).filter(|migration| {
        // Both ends tell of a move; it is counted at the one that was told to make it.
        migration.operation == Direction::Export && migration.state == MigrationState::Failed
    });
    Numbers {
        phase: phase(after),
        shards_wanted: seen.desired.shards,
        shards_ready: u32::try_from(after.ready_shards).unwrap_or_default(),
        nodes_wanted: seen.desired.node_count(),
        nodes_in_sync: count(in_sync.sum()),
        slots_served: count(seen.topology.served()),
        auth_fallbacks: count(members().filter(|member| member.facts.by_fallback).count()),
        failovers: outcome.obeyed.iter().filter_map(failover).collect(),
        migrations_started: count(outcome.obeyed.iter().filter(|order| begins_move(order, before)).count()),
        migrations_failed_now: count(
            outcome.deeds.iter().filter(|deed| deed.reason == "MigrationFailed").count(),
        ),
        migrations_failed: failed.map(|migration| migration.name.clone()).collect(),
        orchestration: after.orchestration.as_ref().and_then(name),
        ended: ended(before, after, now),
    }
}

/// The phase in one word.
pub(super) fn phase(status: &ValkeyClusterStatus) -> &'static str {
    status.phase.unwrap_or_default().into()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn failover(order: &Order) -> Option<Failover> {
    match order {
        Order::Failover(FailoverMode::Planned) => Some(Failover::Planned),
        Order::Failover(FailoverMode::Force) => Some(Failover::Forced),
        Order::Failover(FailoverMode::Takeover) => Some(Failover::Takeover),
        _ => None,
    }
}

/// Every pass carries on with slots that move one by one, and only the first begins it.
fn begins_move(order: &Order, before: &ValkeyClusterStatus) -> bool {
    match order {
        Order::Migrate { .. } => true,
        Order::Carry(_) => !plan::is_moving_slots(before),
        _ => false,
    }
}

/// The name of a change as a fixed word: a status that somebody else wrote must not make series of its own.
fn name(orchestration: &Orchestration) -> Option<&'static str> {
    CHANGES.into_iter().find(|name| *name == orchestration.name)
}

/// The change that was under way before and is not any more.
fn ended(
    before: &ValkeyClusterStatus,
    after: &ValkeyClusterStatus,
    now: Timestamp,
) -> Option<(&'static str, Duration)> {
    let ended = before.orchestration.as_ref()?;
    if after.orchestration.as_ref().is_some_and(|running| running.name == ended.name) {
        return None;
    }
    let took = now.duration_since(ended.started_at.as_ref()?.0);
    // A clock that was set back makes no time negative.
    Some((name(ended)?, Duration::try_from(took).unwrap_or_default()))
}
