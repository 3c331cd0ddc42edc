//! A majority of the primaries is silent: the others cannot elect anybody, and wait for ever. Replicas take over by the
//! operator's order then, but only from primaries that are dead for certain: one that merely cannot be seen from here
//! may still acknowledge writes, which would be lost.

use std::collections::BTreeSet;

use api::keys;
use valkey::client::FailoverMode;
use valkey::cluster::Flag;

use super::super::command::{Command, Order, Stage};
use super::super::observe::{Observed, ObservedNode, PodFacts, PodStage};
use super::super::obstacle::stuck;
use super::super::server::ServerView;
use super::super::topology::{Member, Topology, Whose};
use super::super::validate::{Data, Desired};
use super::Deed;
use super::heal::{best_follower, can_vote};
use super::step::Step;

/// What is to be done about primaries that are silent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fencing {
    /// Nodes whose servers are silent and own slots.
    pub(super) silent: Vec<String>,
    /// The pod whose end is to be made certain.
    pub(super) step: Option<Step>,
    pub(super) takeover: Stage,
    pub(super) promotions: BTreeSet<u32>,
    pub(super) deeds: Vec<Deed>,
    /// Ends that cannot be made certain from here.
    pub(super) waits: Vec<String>,
}

/// How sure it is that a silent server is dead.
enum Fate {
    /// No process has its identity any more.
    Dead,
    /// Its pod is there: whatever runs in it must be ended first.
    MayLive(Step),
    /// Its pod was told to go, and nobody has said that it went.
    NotConfirmed(String),
    /// It will be back with its data, or its end is near.
    Undecided,
}

/// Decide. Nothing is done while a majority answers: their own election is quicker and safer.
pub(super) fn fence(
    desired: &Desired,
    observed: &Observed,
    topology: &Topology<'_>,
    in_flight: &BTreeSet<u32>,
) -> Fencing {
    let mut fencing = Fencing::default();
    if can_vote(topology) {
        return fencing;
    }
    for id in topology.owning_ids() {
        let Some(Whose::Silent(place)) = topology.identities.get(id) else { continue };
        let Some(node) = observed.nodes.get(place) else { continue };
        if !is_suspected(topology, id) {
            continue;
        }
        fencing.silent.push(node.name().to_owned());
        // Without anybody to take over, an end of what runs there would help nobody.
        let Some(best) = best_follower(topology, id) else { continue };
        match fate(desired, node, address_of(topology, id)) {
            Fate::Dead => take_over(best, place.0, in_flight, &mut fencing),
            Fate::MayLive(step) => fencing.step = fencing.step.take().or(Some(step)),
            Fate::NotConfirmed(words) => fencing.waits.push(words),
            Fate::Undecided => {}
        }
    }
    fencing
}

/// One at a time: two that take over at once would claim the same epoch.
fn take_over(best: &Member<'_>, shard: u32, in_flight: &BTreeSet<u32>, fencing: &mut Fencing) {
    if !fencing.takeover.is_empty() || in_flight.contains(&shard) {
        return;
    }
    fencing.takeover.push(Command { at: best.place, order: Order::Failover(FailoverMode::Takeover) });
    fencing.promotions.insert(shard);
    let note = format!(
        "most primaries are gone and cannot elect anybody; {} takes shard {shard} over from one that is dead",
        best.name
    );
    fencing.deeds.push(Deed::warning("TakingOver", note).about(best.name));
}

/// Everybody who knows it has not heard from it for the cluster's timeout: the operator's own silence with it is not enough.
fn is_suspected(topology: &Topology<'_>, id: &str) -> bool {
    let mut views = topology.members.values().filter_map(|member| member.facts.nodes.get(id)).peekable();
    let fails = [Flag::Failed, Flag::PossiblyFailed];
    views.peek().is_some() && views.all(|node| node.flags.iter().any(|flag| fails.contains(flag)))
}

/// Where the others last knew it.
fn address_of<'a>(topology: &'a Topology<'_>, id: &str) -> Option<&'a str> {
    let mut views = topology.members.values().filter_map(|member| member.facts.nodes.get(id));
    views.next().map(|node| node.address.ip.as_str())
}

fn fate(desired: &Desired, node: &ObservedNode, known_at: Option<&str>) -> Fate {
    let Some(pod) = &node.pod else { return without_its_pod(desired, node) };
    if pod.terminating || node.another_pod_leaves {
        return unconfirmed(desired, node, pod);
    }
    match (&pod.address, known_at) {
        (Some(address), Some(known_at)) if address == known_at => {}
        _ => return without_its_pod(desired, node),
    }
    match node.server {
        // Its own machine finds it well: it may be we who are cut off, and with us those who miss it.
        ServerView::Unreachable(_) if pod.stage == PodStage::Ready => Fate::NotConfirmed(format!(
            "the server of {} is silent to everybody who can be asked, and its machine calls its pod {} ready: if the \
             server hangs, delete the pod",
            node.name(),
            pod.name
        )),
        ServerView::Unreachable(_) => Fate::MayLive(Step::FencePod {
            node: node.name().to_owned(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            resource_version: pod.resource_version.clone(),
        }),
        // One that reads its data, or does not know us, lives.
        _ => Fate::Undecided,
    }
}

/// A pod was told to end. Only here the user's word counts: one that was given long ago must not be about a server that
/// lives now.
fn unconfirmed(desired: &Desired, node: &ObservedNode, pod: &PodFacts) -> Fate {
    if !pod.overdue {
        return Fate::Undecided;
    }
    if desired.dead_nodes.contains(node.name()) {
        return Fate::Dead;
    }
    Fate::NotConfirmed(format!(
        "a pod of {} was told to end and its machine does not confirm it: make sure that the machine is off, then \
         annotate the cluster with {}={}",
        node.name(),
        keys::DEAD_NODES,
        node.name()
    ))
}

/// Data in a pod is gone with it. Data on a volume comes back with the next pod, unless that one cannot start.
fn without_its_pod(desired: &Desired, node: &ObservedNode) -> Fate {
    match desired.data {
        Data::Volatile => Fate::Dead,
        Data::Kept if stuck(node).is_some() => Fate::Dead,
        Data::Kept => Fate::Undecided,
    }
}
