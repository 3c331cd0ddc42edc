//! Two primaries in one shard: whoever owns fewer slots gives them to the other one, and then follows it as every node
//! without slots does.

use std::collections::BTreeSet;

use valkey::slots::{self, Move};

use super::SLOTS_LEFT;
use super::shard_health::Health;
use super::slot_moves::{self, Begun};

/// How far a merge is and what it does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Merge {
    pub(super) progress: String,
    pub(super) moves: Begun,
    /// Nodes that own slots and should follow.
    pub(super) pending: Vec<String>,
}

/// Decide what a merge does next; `None` where every shard has one primary. `under_way` says that the status tells of it.
pub(super) fn merge(health: &Health<'_>, under_way: bool, in_flight: &BTreeSet<u32>) -> Option<Merge> {
    let topology = health.topology;
    let mut split = BTreeSet::new();
    let mut moves = Vec::new();
    let mut pending = Vec::new();
    for member in topology.members.values() {
        let ranges = topology.slots_of(member.id());
        let Some(primary) = topology.primary(member.place.0) else { continue };
        if primary.place == member.place || ranges.is_empty() || member.is_replica() {
            continue;
        }
        split.insert(member.place.0);
        pending.push(member.name.to_owned());
        // One that is about to go hands its slots over by itself, or comes back; one that is just back may have lost them.
        if health.can_move_slots(primary.place) && health.can_move_slots(member.place) {
            let (from, to) = (member.id().to_owned(), primary.id().to_owned());
            moves.push(Move { from, to, ranges: ranges.to_vec() });
        }
    }
    if split.is_empty() {
        return None;
    }
    let left: u32 = moves.iter().map(|one| slots::count(&one.ranges)).sum();
    let shards: Vec<String> = split.iter().map(ToString::to_string).collect();
    let subject = if shards.len() == 1 { "shard" } else { "shards" };
    Some(Merge {
        progress: format!("more than one primary in {subject} {}, {left} {SLOTS_LEFT}", shards.join(", ")),
        moves: slot_moves::begin(topology, moves, under_way, in_flight),
        pending,
    })
}
