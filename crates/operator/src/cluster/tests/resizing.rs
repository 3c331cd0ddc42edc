//! Other numbers of shards: slots move while clients write, the controller may die at any word of it, and no key is lost.

use api::cluster::Orchestration;
use pretty_assertions::assert_eq;
use valkey::slots::{self, SLOT_COUNT};
use valkey::{SlotRange, Version};

use super::super::command::Stage;
use super::super::observe::PodStage;
use super::convergence::{assert_rests, spec};
use super::moves;
use super::world::{Passed, World};

pub(super) const OLD: Version = Version::new(8, 1, 4);
pub(super) const NEW: Version = Version::new(9, 1, 2);

/// A cluster in use, and what its clients have written.
#[derive(Clone)]
pub(super) struct Used {
    pub(super) world: World,
    pub(super) written: Vec<(u16, u32)>,
}

impl Used {
    pub(super) fn settled(release: Version, spec: &str) -> Self {
        let mut used = Self { world: World::settled_on(release, spec), written: Vec::new() };
        for key in 0..200 {
            used.write(key);
        }
        used
    }

    /// Slots of every shard get some keys, and some slots get many.
    fn write(&mut self, key: u32) {
        let slot = u16::try_from(key * 7919 % 40 * 409).expect("should be a slot");
        moves::write(&mut self.world.servers, slot, key);
        self.written.push((slot, key));
    }

    fn resize(&mut self, shards: i32) {
        self.world.cluster.spec.shards = shards;
        self.world.cluster.metadata.generation = Some(2);
    }

    /// A pass, then a moment in which a client writes.
    pub(super) fn step(&mut self, deeds: usize) -> Passed {
        let passed = self.world.pass_until(deeds);
        let fresh = 1000 + u32::try_from(self.written.len()).expect("should be few");
        self.write(fresh);
        self.world.tick();
        passed
    }

    pub(super) fn come_to_rest(&mut self, at_most: usize) -> Option<usize> {
        (0..at_most).find(|_| {
            self.step(usize::MAX);
            self.world.is_at_rest()
        })
    }

    pub(super) fn assert_ends_well(&mut self, shards: usize, story: &str) {
        let rest = self.come_to_rest(60);
        assert!(rest.is_some(), "{story}: {:#?}", self.world.status());
        self.assert_keys(story);
        let owned: Vec<u32> =
            self.world.servers.values().map(|server| slots::count(&server.slots())).collect();
        let owners: Vec<u32> = owned.into_iter().filter(|owned| *owned > 0).collect();
        assert_eq!(owners.len(), shards, "{story}");
        let even = u32::from(SLOT_COUNT) / u32::try_from(shards).expect("should be few");
        assert!(owners.iter().all(|owned| (even..=even + 1).contains(owned)), "{story}: {owners:?}");
    }

    /// Every key that was written is at whoever owns its slot, and no slot is half moved.
    pub(super) fn assert_keys(&mut self, story: &str) {
        self.world.assert_no_slot_is_owned_twice();
        assert_rests(&mut self.world);
        self.written.sort_unstable();
        assert_eq!(moves::reachable(&self.world.servers), self.written, "{story}");
        assert!(self.world.servers.values().all(|server| server.migrating.is_empty()), "{story}");
        assert!(self.world.servers.values().all(|server| server.importing.is_empty()), "{story}");
    }
}

#[test]
fn a_cluster_of_any_release_gets_more_shards_and_fewer() {
    for release in [OLD, NEW] {
        for (shards, replicas, next) in [(1, 0, 3), (3, 1, 4), (4, 1, 3), (2, 2, 1)] {
            let mut used = Used::settled(release, &spec(shards, replicas));
            used.world.time = 5000;
            used.resize(next);
            let story = format!("{release}: {shards} to {next} shards with {replicas} replicas");
            used.assert_ends_well(usize::try_from(next).expect("should be a number"), &story);
        }
    }
}

/// It may not know yet that somebody took over from it: what it has is older then.
#[test]
fn no_slot_leaves_a_primary_that_is_just_back() {
    for release in [OLD, NEW] {
        let mut used = Used::settled(release, &spec(3, 1));
        used.resize(2);
        let mut observed = used.world.observe();
        let pod = observed.nodes.get_mut(&(2, 0)).and_then(|node| node.pod.as_mut());
        pod.expect("should have a pod").stage = PodStage::Starting;
        let plan = used.world.plan_for(&observed);
        assert_eq!(plan.stages, Vec::<Stage>::new(), "{release}");
        let undertaking = plan.undertaking.expect("should be resized");
        assert_eq!(undertaking.progress, "waiting until every shard is whole", "{release}");
        used.assert_ends_well(2, &format!("{release}: once it has started"));
    }
}

/// The last slots of a change of size: few enough to die at every word.
pub(super) fn last_slots() -> SlotRange {
    SlotRange::new(8588, 8591).expect("should be slots")
}

/// Two shards of which one lacks a few slots that it is about to get.
fn nearly_grown() -> Used {
    let mut used = Used::settled(OLD, &spec(2, 1));
    let first = used.world.server((0, 0)).id.clone();
    moves::migrate(&mut used.world.servers, (1, 0), &[last_slots()], &first).expect("should move");
    let scale = Orchestration { name: "Scale".to_owned(), ..Orchestration::default() };
    used.world.cluster.status.as_mut().expect("should have a status").orchestration = Some(scale);
    used
}

/// Two shards of which one is about to go and owns no more than a few slots.
fn nearly_shrunk() -> Used {
    let mut used = Used::settled(OLD, &spec(2, 1));
    let first = used.world.server((0, 0)).id.clone();
    let rest =
        [(8192, 8587), (8592, 16383)].map(|(from, to)| SlotRange::new(from, to).expect("should be slots"));
    moves::migrate(&mut used.world.servers, (1, 0), &rest, &first).expect("should move");
    used.resize(1);
    used
}

/// Die after each deed of each pass.
pub(super) fn die_everywhere(mut clean: Used, shards: usize) -> usize {
    for slot in last_slots().start()..=last_slots().start() + 1 {
        for key in 0..12 {
            moves::write(&mut clean.world.servers, slot, key);
            clean.written.push((slot, key));
        }
    }
    // A pass ends in the middle of a slot.
    clean.world.time = 12;
    for _ in 0..3 {
        clean.world.tick();
    }
    let mut deaths = 0;
    for pass in 0.. {
        for deeds in 0.. {
            let mut used = clean.clone();
            if !used.step(deeds).crashed {
                break;
            }
            deaths += 1;
            used.assert_ends_well(shards, &format!("pass {pass} cut off after {deeds} deeds"));
        }
        clean.step(usize::MAX);
        if clean.world.is_at_rest() {
            break;
        }
    }
    deaths
}

#[test]
fn a_growth_may_be_cut_off_at_any_word() {
    let deaths = die_everywhere(nearly_grown(), 2);
    assert!(deaths > 20, "{deaths}");
}

#[test]
fn a_shrinkage_may_be_cut_off_at_any_word() {
    let deaths = die_everywhere(nearly_shrunk(), 1);
    assert!(deaths > 20, "{deaths}");
}
