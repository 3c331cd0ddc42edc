//! How a shard is, for those who want to take a part of it away.

use super::super::observe::{Observed, PodFacts, PodStage};
use super::super::topology::{Member, Place, Topology};
use super::super::validate::Desired;

/// A shard with everything it should have.
pub(super) struct Health<'a> {
    pub(super) desired: &'a Desired,
    pub(super) observed: &'a Observed,
    pub(super) topology: &'a Topology<'a>,
}

impl<'a> Health<'a> {
    /// Every node of the shard answers, is ready and, unless it is the primary, in sync.
    pub(super) fn is_whole(&self, shard: u32) -> bool {
        self.nodes(shard).all(|place| self.is_well(place))
            && (0..=self.desired.replicas).all(|index| self.topology.members.contains_key(&(shard, index)))
    }

    /// Every node of the shard answers, and all but this one are well.
    pub(super) fn is_whole_around(&self, place: Place) -> bool {
        self.nodes(place.0).filter(|other| *other != place).all(|other| self.is_well(other))
            && (0..=self.desired.replicas).all(|index| self.topology.members.contains_key(&(place.0, index)))
    }

    /// Everybody but one node of the shard is well: that one can be taken away and leaves a whole primary.
    pub(super) fn is_whole_without(&self, place: Place) -> bool {
        self.topology.leader(place.0).is_some_and(|leader| leader.place != place)
            && self.nodes(place.0).filter(|other| *other != place).all(|other| self.is_well(other))
    }

    /// The node answers, its pod is ready and stays, and it serves or follows in sync.
    pub(super) fn is_well(&self, place: Place) -> bool {
        let Some(member) = self.topology.members.get(&place) else { return false };
        let plays_its_part = self
            .topology
            .leader(place.0)
            .is_some_and(|leader| leader.place == place || Topology::in_sync(leader, member));
        let ready = self.pod(place).is_some_and(PodFacts::serves);
        ready && plays_its_part
    }

    /// The node can give slots away, or get some: its server stays, and has started. One that is just back may not know yet
    /// that somebody took over, and whoever got its slots would keep its older data.
    pub(super) fn can_move_slots(&self, place: Place) -> bool {
        self.pod(place).is_some_and(|pod| pod.stage >= PodStage::Started && !pod.terminating)
    }

    pub(super) fn pod(&self, place: Place) -> Option<&PodFacts> {
        self.observed.nodes.get(&place)?.pod.as_ref()
    }

    /// The name of a node.
    pub(super) fn name(&self, place: Place) -> String {
        self.observed.nodes.get(&place).map(|node| node.name().to_owned()).unwrap_or_default()
    }

    /// Nodes of the shard that exist.
    pub(super) fn nodes(&self, shard: u32) -> impl Iterator<Item = Place> {
        self.observed.nodes.keys().copied().filter(move |place| place.0 == shard)
    }

    /// The replica that should take over: in sync, preferred if it has the newest template, then the furthest.
    pub(super) fn successor(
        &self,
        shard: u32,
        may_lead: impl Fn(Place) -> bool,
        preferred: impl Fn(Place) -> bool,
    ) -> Option<&Member<'a>> {
        let primary = self.topology.primary(shard)?;
        self.topology
            .shard(shard)
            .filter(|member| member.place != primary.place && self.is_well(member.place))
            .filter(|member| may_lead(member.place))
            .max_by_key(|member| (preferred(member.place), member.offset(), std::cmp::Reverse(member.place)))
    }
}
