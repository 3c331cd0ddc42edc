//! Slots that are half moved: told to leave or to come, and not there yet. Where both ends agree, the move goes on. One
//! that was given up halfway ends wherever keys would be stranded otherwise; only where there are none is it called off.

use std::collections::{BTreeMap, BTreeSet};

use valkey::SlotRange;
use valkey::cluster::MovingSlot;
use valkey::slots::{self, Move};

use super::super::command::{Command, Order, Stage};
use super::super::topology::{Member, Place, Topology, Whose};
use super::shard_health::Health;
use super::{Deed, slot_moves};

/// Every slot that is half moved.
pub(in super::super) fn open_slots(topology: &Topology<'_>) -> BTreeSet<u16> {
    topology.members.values().flat_map(|member| member.facts.open_slots()).collect()
}

/// How a half moved slot ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    /// It goes from its owner to another primary, with every key.
    Finish { from: Place, to: Place },
    /// It stays with its owner, and these forget that it was to move.
    Close { importing: Vec<Place>, leaving: Option<Place>, former: Vec<Place>, owner: String },
    /// Somebody who may hold keys of it does not answer, or does not know yet whether it leads.
    Wait,
}

/// What is done about half moved slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) stages: Vec<Stage>,
    pub(super) deeds: Vec<Deed>,
}

/// End half moved slots.
pub(super) fn settle(health: &Health<'_>, open: &BTreeSet<u16>) -> Settled {
    let topology = health.topology;
    let mut moves: BTreeMap<(Place, Place), Vec<SlotRange>> = BTreeMap::new();
    let mut closing: BTreeMap<Place, Vec<u16>> = BTreeMap::new();
    let mut staying: BTreeMap<Place, Vec<u16>> = BTreeMap::new();
    let mut given_up: BTreeMap<(Place, String), Vec<u16>> = BTreeMap::new();
    let mut closed = Vec::new();
    for slot in open.iter().copied() {
        match ending(health, slot) {
            Ending::Finish { from, to } => {
                moves.entry((from, to)).or_default().extend(SlotRange::new(slot, slot));
            }
            Ending::Close { importing, leaving, former, owner } => {
                closed.push(slot);
                for place in importing {
                    closing.entry(place).or_default().push(slot);
                }
                if let Some(place) = leaving {
                    staying.entry(place).or_default().push(slot);
                }
                for place in former {
                    given_up.entry((place, owner.clone())).or_default().push(slot);
                }
            }
            Ending::Wait => {}
        }
    }
    let deeds = deeds(topology, &moves, &closed);
    let close = |(at, slots)| Command { at, order: Order::Close(slots) };
    let let_go = |((at, owner), slots)| Command { at, order: Order::GiveUp { slots, owner } };
    let stages = [
        finish(topology, moves),
        // Whoever imports is looked at once more before it forgets. Only then may the owner keep its slot.
        closing.into_iter().map(close).chain(given_up.into_iter().map(let_go)).collect(),
        staying.into_iter().map(close).collect(),
    ];
    Settled { stages: stages.into_iter().filter(|stage| !stage.is_empty()).collect(), deeds }
}

fn deeds(
    topology: &Topology<'_>,
    moves: &BTreeMap<(Place, Place), Vec<SlotRange>>,
    closed: &[u16],
) -> Vec<Deed> {
    let name = |place: &Place| topology.members.get(place).map(|member| member.name).unwrap_or_default();
    let mut deeds = Vec::new();
    for ((from, to), ranges) in moves {
        let note = format!(
            "{} left behind half moved from {} to {}: the move is finished",
            slots_in_words(ranges.iter().map(|range| range.start())),
            name(from),
            name(to)
        );
        deeds.push(Deed::warning("FinishingSlots", note).about(name(to)));
    }
    if !closed.is_empty() {
        let note = format!(
            "{} left behind half moved, with no key on the way: the move is called off",
            slots_in_words(closed.iter().copied())
        );
        deeds.push(Deed::warning("ClosingSlots", note));
    }
    deeds
}

fn slots_in_words(slots: impl ExactSizeIterator<Item = u16>) -> String {
    let count = slots.len();
    let first: Vec<String> = slots.take(5).map(|slot| slot.to_string()).collect();
    match count {
        1 => format!("slot {} was", first.join(", ")),
        2..=5 => format!("slots {} were", first.join(", ")),
        _ => format!("{count} slots ({}, …) were", first.join(", ")),
    }
}

fn finish(topology: &Topology<'_>, moves: BTreeMap<(Place, Place), Vec<SlotRange>>) -> Stage {
    let id = |place: &Place| topology.members.get(place).map(|member| member.id().to_owned());
    let moves = moves
        .into_iter()
        .filter_map(|((from, to), ranges)| Some(Move { from: id(&from)?, to: id(&to)?, ranges }));
    let wave = slots::waves(moves.collect()).into_iter().next().unwrap_or_default();
    wave.into_iter()
        .filter_map(|one| {
            let (from, to) = (topology.member_of(&one.from)?, topology.member_of(&one.to)?);
            Some(slot_moves::one_by_one(topology, from, to, one.ranges))
        })
        .collect()
}

fn ending(health: &Health<'_>, slot: u16) -> Ending {
    let topology = health.topology;
    let Some(owner) = topology.owner_of(slot).and_then(|id| topology.member_of(id)) else {
        return Ending::Wait;
    };
    let primaries: Vec<&Member<'_>> =
        topology.members.values().filter(|member| !member.is_replica()).collect();
    if owner.is_replica() || primaries.iter().any(|member| keys(member, slot).is_none()) {
        return Ending::Wait;
    }
    let target = match leaves_for(owner, slot).map(|id| resolve(topology, id)) {
        Some(End::Unsure) => return Ending::Wait,
        Some(End::Answers(target)) if target.place != owner.place => Some(target),
        Some(End::Answers(_) | End::Gone) | None => None,
    };
    let agreed = target.filter(|target| imports(target, slot));
    let holds_keys = |member: &&Member<'_>| keys(member, slot).is_some_and(|keys| keys > 0);
    let rank = |member: &&Member<'_>| {
        let is_target = target.is_some_and(|target| target.place == member.place);
        (is_target, imports(member, slot), std::cmp::Reverse(member.place))
    };
    let holder = primaries
        .iter()
        .copied()
        .filter(|member| member.place != owner.place)
        .filter(holds_keys)
        .max_by_key(rank);
    if let Some(to) = agreed.or(holder) {
        let places = [owner.place, to.place];
        // Whoever gets a slot claims all of its slots anew: one that is just back may not know yet that it lost them.
        let can_move = places.into_iter().all(|place| health.can_move_slots(place));
        return if can_move { Ending::Finish { from: owner.place, to: to.place } } else { Ending::Wait };
    }
    let places = |chosen: &dyn Fn(&Member<'_>) -> bool| -> Vec<Place> {
        primaries.iter().filter(|member| chosen(member)).map(|member| member.place).collect()
    };
    Ending::Close {
        importing: places(&|member| imports(member, slot)),
        leaving: leaves_for(owner, slot).map(|_| owner.place),
        // They would serve the slot again if they only forgot that it left.
        former: places(&|member| member.place != owner.place && leaves_for(member, slot).is_some()),
        owner: owner.id().to_owned(),
    }
}

fn keys(member: &Member<'_>, slot: u16) -> Option<u64> {
    member.facts.keys_in_open_slots.get(&slot).copied()
}

fn imports(member: &Member<'_>, slot: u16) -> bool {
    member.myself().is_some_and(|myself| find(&myself.importing, slot).is_some())
}

fn leaves_for<'a>(member: &'a Member<'_>, slot: u16) -> Option<&'a str> {
    find(&member.myself()?.migrating, slot)
}

fn find(moving: &[MovingSlot], slot: u16) -> Option<&str> {
    moving.iter().find(|one| one.slot == slot).map(|one| one.node_id.as_str())
}

/// Whom a slot was to go to.
enum End<'t, 'a> {
    Answers(&'t Member<'a>),
    /// Nobody has this identity any more.
    Gone,
    /// It may come back.
    Unsure,
}

fn resolve<'t, 'a>(topology: &'t Topology<'a>, id: &str) -> End<'t, 'a> {
    match topology.identities.get(id) {
        Some(Whose::Member(_)) => {
            let member = topology.member_of(id);
            // Another one of its shard leads by now.
            let primary = match member.and_then(|member| member.follows()) {
                Some(primary) => topology.member_of(primary),
                None => member,
            };
            primary.filter(|primary| !primary.is_replica()).map_or(End::Unsure, End::Answers)
        }
        Some(Whose::Former(_)) => End::Gone,
        Some(Whose::Unknown) | None if topology.silent.is_empty() => End::Gone,
        Some(Whose::Silent(_) | Whose::Unknown) | None => End::Unsure,
    }
}
