//! Slots that go from one primary to another, in the way that both of their servers know: at once where the servers move
//! slots by themselves, else one by one.

use std::collections::BTreeSet;

use valkey::cluster::{Direction, MigrationState};
use valkey::slots::{self, Move};
use valkey::{SlotRange, Version};

use super::super::command::{Command, Order, Route, Stage};
use super::super::topology::{Member, Topology};
use super::roll::Blocked;

/// How moves begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) commands: Stage,
    /// Nodes from which a move failed, with the server's words.
    pub(super) failures: Vec<(String, String)>,
    pub(super) blocked: Option<Blocked>,
    /// The status must say first what is about to happen: slots that are found half moved are then known to be ours.
    pub(super) to_be_announced: bool,
    /// Slots move just now: what comes after them waits for nothing else.
    pub(super) under_way: bool,
}

/// Begin the first wave of moves, one per pair of nodes, unless one runs already. `announced` says that the status tells
/// of them.
pub(super) fn begin(
    topology: &Topology<'_>,
    moves: Vec<Move>,
    announced: bool,
    in_flight: &BTreeSet<u32>,
) -> Begun {
    let mut begun = Begun::default();
    let runs = |member: &Member<'_>| member.facts.migrations.iter().any(|one| one.state.is_running());
    // Slots that are half moved are settled first: somebody may hold keys of them.
    if topology.members.values().any(|member| runs(member) || member.has_open_slots()) {
        begun.under_way = true;
        return begun;
    }
    for one in slots::waves(moves).into_iter().next().unwrap_or_default() {
        let (Some(from), Some(to)) = (topology.member_of(&one.from), topology.member_of(&one.to)) else {
            continue;
        };
        if moves_by_itself(from) && moves_by_itself(to) {
            at_once(from, one, in_flight, &mut begun);
        } else if release(from) > release(to) {
            let words = format!(
                "{} runs an older release than {} and cannot take its keys; update the image first",
                to.name, from.name
            );
            begun.blocked = Some(Blocked::OldRelease(words));
        } else if announced {
            begun.commands.push(one_by_one(topology, from, to, one.ranges));
        } else {
            begun.to_be_announced = true;
        }
    }
    begun
}

fn moves_by_itself(member: &Member<'_>) -> bool {
    member.facts.version.is_some_and(Version::supports_atomic_slot_migration)
}

/// What decides whether a server can read the keys of another.
fn release(member: &Member<'_>) -> Option<(u32, u32)> {
    member.facts.version.map(|version| (version.major, version.minor))
}

fn at_once(from: &Member<'_>, one: Move, in_flight: &BTreeSet<u32>, begun: &mut Begun) {
    // A move that failed is tried again, and after that not at once.
    if let Some(failed) = failed_export(from) {
        begun.failures.push((from.name.to_owned(), failed.to_owned()));
        if in_flight.contains(&from.place.0) {
            return;
        }
    }
    begun.commands.push(Command { at: from.place, order: Order::Migrate { ranges: one.ranges, to: one.to } });
}

/// What the server says of a move from it that failed.
fn failed_export<'a>(from: &'a Member<'_>) -> Option<&'a str> {
    let exports = from.facts.migrations.iter().filter(|one| one.operation == Direction::Export);
    exports.filter(|one| one.state == MigrationState::Failed).map(|one| one.message.as_str()).next()
}

/// The command for slots that move key by key.
pub(super) fn one_by_one(
    topology: &Topology<'_>,
    from: &Member<'_>,
    to: &Member<'_>,
    ranges: Vec<SlotRange>,
) -> Command {
    let others = topology
        .members
        .values()
        .filter(|member| !member.is_replica() && member.place != from.place && member.place != to.place)
        .map(|member| member.place)
        .collect();
    Command { at: from.place, order: Order::Carry(Route { ranges, to: to.place, others }) }
}
