//! Mending what died. A server that came back as somebody else, or with nothing, proves that the identity it had is
//! dead: nobody has to wait for the others to suspect it. So does the agent beside a server that has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{ValkeyClusterStatus, keys};
use valkey::SlotRange;
use valkey::client::FailoverMode;

use super::super::command::{Command, Order, Stage};
use super::super::topology::{Member, Place, Topology, Whose};
use super::super::validate::{Data, Desired};
use super::Deed;
use super::formation::common;

/// What healing wants to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Healing {
    pub(super) stages: Vec<Stage>,
    pub(super) deeds: Vec<Deed>,
    /// Shards in which a replica was told to take over.
    pub(super) promotions: BTreeSet<u32>,
    /// What cannot be mended without a word of the user.
    pub(super) waits: Vec<String>,
}

/// An owner of slots that is dead for certain.
struct Orphaned<'a> {
    place: Place,
    dead: &'a str,
    /// How long ago its agent told of it, if its server may come back as who it was, and with its data. Otherwise nobody can have the
    /// identity any more.
    told: Option<Duration>,
}

/// What its agent tells of a death, the agent knew a moment before; a replica counts in whole seconds.
const LEEWAY: Duration = Duration::from_secs(3);

fn orphaned<'a>(topology: &Topology<'a>) -> Vec<Orphaned<'a>> {
    let of = |dead: &'a str| match topology.identities.get(dead)? {
        Whose::Former(place) => Some(Orphaned { place: *place, dead, told: None }),
        Whose::Silent(place) => {
            let told = topology.ended.get(place).copied()?;
            Some(Orphaned { place: *place, dead, told: Some(told) })
        }
        _ => None,
    };
    let mut orphaned: Vec<Orphaned<'_>> = topology.owning_ids().into_iter().filter_map(of).collect();
    orphaned.sort_unstable_by_key(|one| (one.place, one.dead));
    orphaned
}

/// Let the best copy take over where the owner is dead; where no copy is left and nothing can be lost any more, begin
/// anew with empty slots.
pub(super) fn heal(
    desired: &Desired,
    topology: &Topology<'_>,
    status: &ValkeyClusterStatus,
    in_flight: &BTreeSet<u32>,
) -> Healing {
    let mut healing = Healing::default();
    let mut promotions = Stage::new();
    let mut struck_out = Stage::new();
    for Orphaned { place, dead, told } in orphaned(topology) {
        let shard = place.0;
        let follower = topology.members.values().find(|member| member.follows() == Some(dead));
        let silent = topology.silent.iter().any(|other| other.0 == shard && *other != place);
        let comes_back = told.filter(|_| desired.data == Data::Kept);
        let best = match comes_back {
            None => best_follower(topology, dead),
            Some(ago) => follower_until(topology, dead, ago),
        };
        match (best, follower) {
            // Then it did not end.
            _ if told.is_some() && is_followed(topology, dead) => {}
            // One order at a time: a second one would only disturb the first.
            _ if in_flight.contains(&shard) => {}
            // Nobody votes on these: two that take over at once would claim the same epoch.
            (Some(_), _) if !can_vote(topology) && !promotions.is_empty() => {}
            // Somebody who does not answer just now may have more. The servers' own election knows.
            (Some(_), _) if silent && can_vote(topology) => {}
            (Some(best), _) => promote(topology, best, shard, &mut promotions, &mut healing),
            // What nobody has a whole copy of may come back with its server.
            _ if comes_back.is_some() => {}
            (None, Some(_)) if desired.data == Data::Kept && !desired.data_loss_accepted => {
                healing.waits.push(format!(
                    "no replica of shard {shard} ever was a full copy; annotate the cluster with {}=true to go on",
                    keys::ACCEPT_DATA_LOSS
                ));
            }
            (None, Some(_)) if silent => {}
            // What they follow is dead and they have nothing of it: whoever serves, serves without its keys.
            (None, Some(first)) => {
                let note = format!(
                    "no replica of shard {shard} was a full copy: its slots are served without their keys"
                );
                healing.deeds.push(Deed::warning("DataLost", note));
                promote(topology, first, shard, &mut promotions, &mut healing);
            }
            (None, None) => give_up(desired, topology, shard, dead, &mut struck_out, &mut healing),
        }
    }
    healing.stages.extend([promotions, struck_out].into_iter().filter(|stage| !stage.is_empty()));
    healing.stages.extend(begin_anew(desired, topology, status, &mut healing.deeds));
    healing
}

fn promote(
    topology: &Topology<'_>,
    best: &Member<'_>,
    shard: u32,
    promotions: &mut Stage,
    healing: &mut Healing,
) {
    let mode = if can_vote(topology) { FailoverMode::Force } else { FailoverMode::Takeover };
    promotions.push(Command { at: best.place, order: Order::Failover(mode) });
    healing.promotions.insert(shard);
    let note = format!("the primary of shard {shard} is gone; {} takes over", best.name);
    healing.deeds.push(Deed::warning("PrimaryLost", note).about(best.name));
}

/// Of those who follow an identity and have been a full copy of it, the one with most of its history.
pub(super) fn best_follower<'a, 'b>(topology: &'b Topology<'a>, id: &str) -> Option<&'b Member<'a>> {
    let followers = topology.members.values().filter(|member| member.follows() == Some(id));
    followers
        .filter(|member| member.has_history())
        .max_by_key(|member| (member.offset(), std::cmp::Reverse(member.place)))
}

/// The same, if it lacks nothing that was acknowledged: it followed until the end.
fn follower_until<'a, 'b>(topology: &'b Topology<'a>, id: &str, ago: Duration) -> Option<&'b Member<'a>> {
    best_follower(topology, id).filter(|best| best.followed_until(ago + LEEWAY))
}

fn is_followed(topology: &Topology<'_>, id: &str) -> bool {
    let mut followers = topology.members.values().filter(|member| member.follows() == Some(id));
    followers.any(Member::is_linked)
}

/// Whether a majority of those who own slots answers: only then can an election be won.
pub(super) fn can_vote(topology: &Topology<'_>) -> bool {
    let owning = topology.owning_ids();
    let answering = owning.iter().filter(|id| topology.member_of(id).is_some()).count();
    answering * 2 > owning.len()
}

/// The last copy is gone. With data on volumes, that is for a person to look at; data in pods was lost with them.
fn give_up(
    desired: &Desired,
    topology: &Topology<'_>,
    shard: u32,
    dead: &str,
    struck_out: &mut Stage,
    healing: &mut Healing,
) {
    if !nothing_is_left(desired, topology, shard) {
        return;
    }
    if desired.data == Data::Kept && !desired.data_loss_accepted {
        healing.waits.push(format!(
            "every copy of shard {shard} came back without its data; annotate the cluster with {}=true to go on",
            keys::ACCEPT_DATA_LOSS
        ));
        return;
    }
    let note = format!("every copy of shard {shard} is gone: its slots are served again, without their keys");
    healing.deeds.push(Deed::warning("DataLost", note));
    let knowing = topology.members.values().filter(|member| member.knows(dead));
    struck_out
        .extend(knowing.map(|member| Command { at: member.place, order: Order::Forget(dead.to_owned()) }));
}

/// Every node the shard should have answers, and none of them has a key or a part of the cluster's history.
fn nothing_is_left(desired: &Desired, topology: &Topology<'_>, shard: u32) -> bool {
    let silent = topology.silent.iter().any(|place| place.0 == shard);
    let complete = (0..=desired.replicas).all(|index| topology.members.contains_key(&(shard, index)));
    let empty = topology.shard(shard).all(|member| {
        !member.facts.has_keys && !member.is_replica() && topology.slots_of(member.id()).is_empty()
    });
    !silent && complete && empty
}

/// Slots without an owner go to the shard that had them, once all of its nodes are known to be empty.
fn begin_anew(
    desired: &Desired,
    topology: &Topology<'_>,
    status: &ValkeyClusterStatus,
    deeds: &mut Vec<Deed>,
) -> Option<Stage> {
    let given_up = desired.data == Data::Volatile || desired.data_loss_accepted;
    if !given_up || (topology.assigned() == 0 && !topology.silent.is_empty()) {
        return None;
    }
    let unowned = topology.unowned();
    let mut stage = Stage::new();
    for shard in &status.shard_details {
        let Ok(number) = u32::try_from(shard.index) else { continue };
        let first: Place = (number, 0);
        if topology.primary(number).is_some() || !nothing_is_left(desired, topology, number) {
            continue;
        }
        let had: Vec<SlotRange> = shard.slots.split(',').filter_map(SlotRange::parse).collect();
        let missing: Vec<SlotRange> = had.iter().flat_map(|range| common(*range, unowned)).collect();
        if !missing.is_empty() && topology.members.contains_key(&first) {
            deeds.push(Deed::warning("SlotsServedAgain", format!("shard {number} begins anew, empty")));
            stage.push(Command { at: first, order: Order::AddSlots(missing) });
        }
    }
    (!stage.is_empty()).then_some(stage)
}
