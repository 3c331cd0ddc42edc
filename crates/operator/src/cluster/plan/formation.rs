//! Making a cluster out of servers that know nothing, and taking in those that come later.

use std::collections::BTreeSet;
use std::time::Duration;

use valkey::client::FailoverMode;
use valkey::{SlotRange, slots};

use super::super::command::{Command, Order, Stage};
use super::super::observe::Observed;
use super::super::obstacle;
use super::super::topology::{Member, Place, Topology, Whose};
use super::super::validate::{Data, Desired};
use super::heal::best_follower;

/// Above this many servers they are introduced to one of them only; their own gossip does the rest.
const INTRODUCE_ALL: usize = 32;

/// How long after its start a server is greeted again: well within the time that others remember when they met it.
const GREETED_WITHIN: Duration = Duration::from_secs(30);

/// Give the slots to the first node of each shard, and introduce everybody to everybody, all in one pass: claims that
/// were made before the introduction spread with it. A pass that was cut off in the middle is completed by the next.
pub(super) fn form(desired: &Desired, topology: &Topology<'_>) -> Vec<Stage> {
    let [epochs, claims] = claim(desired, topology);
    [epochs, claims, introduce(topology)].into_iter().filter(|stage| !stage.is_empty()).collect()
}

/// Give slots to first nodes that answer while others are still on their way: a server that owns nothing for its first two
/// seconds believes to be cut off from its cluster, and later refuses to serve for five. Only where nobody can have a past:
/// whoever is silent may own the slots already, with all that was ever written to them. Only by the first spec there was: by
/// another one, shares would differ from those that servers were given which are silent just now. And only where everybody is
/// on the way and nobody owns all slots alone: what a server acknowledges before the others know it is nowhere else.
pub(super) fn claim_early(desired: &Desired, observed: &Observed, topology: &Topology<'_>) -> Vec<Stage> {
    let past = desired.data == Data::Kept
        || observed.nodes.values().any(|node| node.has_past)
        || topology.members.values().any(|member| !member.is_alone());
    let comes = |place| {
        observed.nodes.get(&place).is_some_and(|node| node.pod.is_some() && obstacle::stuck(node).is_none())
    };
    let first_spec = desired.identity.generation == Some(1);
    if past || !first_spec || desired.shards == 1 || !desired.places().all(comes) {
        return Vec::new();
    }
    claim(desired, topology).into_iter().filter(|stage| !stage.is_empty()).collect()
}

/// Epochs and slots for the first nodes that lack them.
fn claim(desired: &Desired, topology: &Topology<'_>) -> [Stage; 2] {
    let mut epochs = Stage::new();
    let mut claims = Stage::new();
    let unowned = topology.unowned();
    for (shard, share) in (0u32..).zip(slots::initial(desired.shards as usize)) {
        let Some(first) = topology.members.get(&(shard, 0)) else { continue };
        let missing: Vec<_> = share.into_iter().flat_map(|range| common(range, unowned)).collect();
        if missing.is_empty() || first.is_replica() {
            continue;
        }
        if first.is_blank() && first.facts.health.my_epoch == 0 {
            epochs.push(Command { at: first.place, order: Order::SetEpoch(u64::from(shard) + 1) });
        }
        claims.push(Command { at: first.place, order: Order::AddSlots(missing) });
    }
    [epochs, claims]
}

/// The parts of a range that lie in any of the others.
pub(super) fn common(range: SlotRange, others: &[SlotRange]) -> Vec<SlotRange> {
    others
        .iter()
        .filter_map(|other| SlotRange::new(range.start().max(other.start()), range.end().min(other.end())))
        .collect()
}

/// A server that died while the cluster was being made, and came back as somebody else, left slots to a name nobody has.
/// Whoever followed it takes over, one at a time: two at once would claim the same epoch, and the one with most of what was
/// written, because servers serve before their cluster is called formed. Where nobody did, the name is struck out, and its
/// slots are given again.
pub(super) fn take_back(topology: &Topology<'_>, in_flight: &BTreeSet<u32>) -> (Stage, BTreeSet<u32>) {
    let mut stage = Stage::new();
    for id in topology.owning_ids() {
        let Some(Whose::Former((shard, _))) = topology.identities.get(id) else { continue };
        let follower = topology.members.values().find(|member| member.follows() == Some(id));
        let Some(heir) = best_follower(topology, id).or(follower) else {
            let knowing = topology.members.values().filter(|member| member.knows(id));
            stage.extend(
                knowing.map(|member| Command { at: member.place, order: Order::Forget(id.to_owned()) }),
            );
            continue;
        };
        if in_flight.is_empty() {
            let order = Order::Failover(FailoverMode::Takeover);
            return (vec![Command { at: heir.place, order }], BTreeSet::from([*shard]));
        }
    }
    (stage, BTreeSet::new())
}

/// Newcomers in a running cluster begin with an epoch of their own, above all others: claims of nodes long gone cannot
/// win against theirs.
pub(super) fn epochs_of_newcomers(topology: &Topology<'_>) -> Stage {
    let next = topology.epoch() + 1;
    (next..)
        .zip(
            topology.members.values().filter(|member| member.is_blank() && member.facts.health.my_epoch == 0),
        )
        .map(|(epoch, member)| Command { at: member.place, order: Order::SetEpoch(epoch) })
        .collect()
}

/// Bring together who should know each other and cannot find each other: newcomers, and members that all moved to new
/// addresses at once.
pub(super) fn introduce(topology: &Topology<'_>) -> Stage {
    let apart = topology.apart();
    if topology.members.len() <= INTRODUCE_ALL {
        return apart.iter().map(|(one, other)| meet(one.place, other.address)).collect();
    }
    // Through the member that most of the others know already.
    let hub = topology.members.values().max_by_key(|member| {
        let known = topology.members.values().filter(|other| other.knows(member.id())).count();
        (known, std::cmp::Reverse(member.place))
    });
    let Some(hub) = hub else { return Stage::new() };
    apart
        .iter()
        .filter_map(|(one, other)| match (one.place == hub.place, other.place == hub.place) {
            (true, _) => Some(meet(hub.place, other.address)),
            (_, true) => Some(meet(hub.place, one.address)),
            _ => None,
        })
        .collect()
}

/// Servers that were just introduced to each other say nothing of their slots, and then each of them speaks with one other
/// in a second. A second greeting is news of the slots. Only for servers that just started: one that has known the other for
/// long takes a greeting for a sign that it was forgotten, and connects anew.
pub(super) fn greet_again(topology: &Topology<'_>) -> Stage {
    if topology.members.len() > INTRODUCE_ALL {
        return Stage::new();
    }
    let unheard = topology.unheard();
    let young = |listener: &Member<'_>| listener.facts.uptime.is_some_and(|uptime| uptime < GREETED_WITHIN);
    let news = unheard.iter().filter(|(_, listener)| young(listener));
    news.map(|(owner, listener)| meet(owner.place, listener.address)).collect()
}

fn meet(at: Place, address: &str) -> Command {
    Command { at, order: Order::Meet(address.to_owned()) }
}

/// Let nodes without slots follow the primary of their shard, as soon as that primary trusts them: an earlier order
/// would leave the replica unknown to the one it copies from.
pub(super) fn replicate(topology: &Topology<'_>, formed: bool) -> Stage {
    topology
        .members
        .values()
        .filter(|member| !member.terminating)
        .filter_map(|member| {
            // Before the slots were given out, a shard without any is only not that far yet.
            let shard = member.place.0;
            let primary = if formed { topology.leader(shard)? } else { topology.primary(shard)? };
            let settled = primary.place == member.place
                || member.follows() == Some(primary.id())
                || !topology.slots_of(member.id()).is_empty()
                // It may hold keys that are on their way.
                || member.has_open_slots();
            if settled || primary.terminating || !primary.knows(member.id()) || !member.knows(primary.id()) {
                return None;
            }
            Some(Command {
                at: member.place,
                order: Order::Replicate {
                    primary: primary.id().to_owned(),
                    // Keys of a server that owns no slot are out of everybody's reach, and in the way.
                    flush_first: member.facts.has_keys && !member.is_replica(),
                },
            })
        })
        .collect()
}

/// Strike out identities that nobody has any more. One that owns slots stays, and so does one that somebody follows:
/// the votes for its successor need it.
pub(super) fn forget(topology: &Topology<'_>) -> Stage {
    let owning = topology.owning_ids();
    let followed: Vec<&str> = topology.members.values().filter_map(|member| member.follows()).collect();
    let mut stage = Stage::new();
    for (id, whose) in &topology.identities {
        let gone = match whose {
            Whose::Member(_) | Whose::Silent(_) => false,
            Whose::Former(_) => true,
            // Without a name it could be anybody who is silent just now.
            Whose::Unknown => topology.silent.is_empty(),
        };
        if !gone || owning.contains(id) || followed.contains(id) {
            continue;
        }
        for member in topology.members.values().filter(|member| member.knows(id)) {
            stage.push(Command { at: member.place, order: Order::Forget((*id).to_owned()) });
        }
    }
    stage.sort_by_key(|command| command.at);
    stage
}
