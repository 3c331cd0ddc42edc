//! Other numbers of shards or replicas: slots move to where they belong, and nodes that are no longer wanted leave once
//! nothing depends on them. Roles decide who leaves, never numbers: a live primary hands over first.

use std::collections::BTreeSet;

use valkey::slots::{self, Move, Owner};

use super::super::topology::{Member, Place};
use super::SLOTS_LEFT;
use super::roll::Blocked;
use super::shard_health::Health;
use super::slot_moves::{self, Begun};
use super::step::Step;

/// How far a change of size is and what it does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scale {
    /// Something is to be done.
    pub(super) needed: bool,
    pub(super) progress: String,
    pub(super) moves: Begun,
    pub(super) step: Option<Step>,
    pub(super) pending: Vec<String>,
    pub(super) blocked: Option<Blocked>,
}

/// Decide what a change of size does next. `under_way` says that one was begun: slots are then moved until they are even.
pub(super) fn scale(health: &Health<'_>, under_way: bool, in_flight: &BTreeSet<u32>) -> Scale {
    let leaving = leaving(health);
    let newcomers = newcomers(health);
    let mut scale =
        Scale { pending: leaving.iter().map(|member| health.name(*member)).collect(), ..Scale::default() };
    if leaving.is_empty() && newcomers.is_empty() && !under_way {
        return scale;
    }
    let Some(owners) = owners(health) else {
        scale.needed = true;
        "waiting until every shard is whole".clone_into(&mut scale.progress);
        return scale;
    };
    let leaving_shard_owns = owners.iter().any(|owner| !owner.keep && !owner.ranges.is_empty());
    let needs_moves = under_way || leaving_shard_owns || !newcomers.is_empty();
    let moves = if needs_moves { slots::balance(&owners) } else { Vec::new() };
    if !moves.is_empty() {
        scale.needed = true;
        move_slots(health, moves, under_way, in_flight, &mut scale);
        return scale;
    }
    if let Some(place) = leaving.first().copied() {
        scale.needed = true;
        scale.progress = format!("{} nodes are still to be removed", leaving.len());
        remove(health, place, in_flight, &mut scale);
    }
    scale
}

/// Nodes that the spec no longer asks for, the furthest first, replicas before primaries.
fn leaving(health: &Health<'_>) -> Vec<Place> {
    let wanted: BTreeSet<Place> = health.desired.places().collect();
    let mut leaving: Vec<Place> =
        health.observed.nodes.keys().copied().filter(|place| !wanted.contains(place)).rev().collect();
    let leads = |place: &Place| health.topology.leader(place.0).is_some_and(|leader| leader.place == *place);
    leaving.sort_by_key(leads);
    leaving
}

/// Shards that the spec asks for and that own nothing yet.
fn newcomers(health: &Health<'_>) -> Vec<u32> {
    let owns_nothing = |shard: &u32| {
        health.topology.primary(*shard).is_none() && !health.topology.is_owned_by_absent(*shard)
    };
    (0..health.desired.shards).filter(owns_nothing).collect()
}

/// Who owns slots or should. `None` while somebody who should is not ready for it: slots go only to shards that have
/// their copies, because what arrives there is as dear as what was there before.
fn owners(health: &Health<'_>) -> Option<Vec<Owner>> {
    let last = health.observed.nodes.keys().map(|place| place.0 + 1).max()?;
    let mut owners = Vec::new();
    for shard in 0..last.max(health.desired.shards) {
        let keep = shard < health.desired.shards;
        let Some(leader) = health.topology.leader(shard) else {
            // Slots of a shard that leaves may belong to somebody who does not answer just now: nothing leaves before they moved.
            if keep || health.topology.is_owned_by_absent(shard) {
                return None;
            }
            continue;
        };
        let ranges = health.topology.slots_of(leader.id()).to_vec();
        let is_ready = if keep {
            health.is_whole(shard)
        } else {
            ranges.is_empty() || health.can_move_slots(leader.place)
        };
        if !is_ready {
            return None;
        }
        owners.push(Owner { id: leader.id().to_owned(), ranges, keep });
    }
    Some(owners)
}

fn move_slots(
    health: &Health<'_>,
    moves: Vec<Move>,
    under_way: bool,
    in_flight: &BTreeSet<u32>,
    scale: &mut Scale,
) {
    let left: u32 = moves.iter().map(|one| slots::count(&one.ranges)).sum();
    scale.progress = format!("{left} {SLOTS_LEFT}");
    scale.moves = slot_moves::begin(health.topology, moves, under_way, in_flight);
    scale.blocked = scale.moves.blocked.take();
}

/// Take one node away, or hand over first.
fn remove(health: &Health<'_>, place: Place, in_flight: &BTreeSet<u32>, scale: &mut Scale) {
    let shard = place.0;
    let Some(node) = health.observed.nodes.get(&place) else { return };
    let leads = health.topology.leader(shard).is_some_and(|leader| leader.place == place);
    let owns =
        health.topology.members.get(&place).is_some_and(|m| !health.topology.slots_of(m.id()).is_empty());
    if shard < health.desired.shards && (leads || owns) {
        if in_flight.contains(&shard) {
            return;
        }
        let stays = |place: Place| place.1 <= health.desired.replicas;
        if let Some(successor) = health.successor(shard, stays, |_| true) {
            let (to, node) = (successor.place, successor.name.to_owned());
            scale.step = Some(Step::HandOver { shard, to, node });
        } else {
            let words = format!(
                "{} leads shard {shard}, and no node that stays is in sync to take over",
                node.name()
            );
            scale.blocked = Some(Blocked::NoReplicaInSync(words));
        }
        return;
    }
    // A node that owns slots never goes, and neither does one whose shard would be left with too few copies.
    let staying_are_well = shard >= health.desired.shards
        || (0..=health.desired.replicas).all(|index| health.is_well((shard, index)));
    let open = health.topology.members.get(&place).is_some_and(Member::has_open_slots);
    // Where the owner of the slots is silent, every other node may be the last copy.
    if owns || open || !staying_are_well || health.topology.is_owned_by_absent(shard) {
        return;
    }
    let meta = &node.node.metadata;
    if let (Some(uid), Some(resource_version)) = (&meta.uid, &meta.resource_version) {
        scale.step = Some(Step::RemoveNode {
            node: node.name().to_owned(),
            uid: uid.clone(),
            resource_version: resource_version.clone(),
        });
    }
}
