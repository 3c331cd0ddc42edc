//! A replica that never was a full copy of its primary has nothing to serve in its place.

use std::collections::BTreeSet;

use super::super::plan::Plan;
use super::super::server::ServerView;
use super::kubernetes;
use super::world::World;

/// The first primary came back as a stranger, and its replica has this much of its history.
fn orphaned(spec: &str, offset: u64, sync_in_progress: bool) -> Plan {
    let mut world = World::settled(spec);
    world.lose((0, 0));
    // Its pod is made and started again; the others have not noticed yet.
    kubernetes::tick(&mut world);
    kubernetes::tick(&mut world);
    let mut observed = world.observe();
    let replica = &mut observed.nodes.get_mut(&(0, 1)).expect("should be there").server;
    let ServerView::Answering(facts) = replica else { panic!("should answer") };
    let replication = facts.replication.as_mut().expect("should follow somebody");
    let link = replication.primary.as_mut().expect("should have a link");
    (link.offset, link.sync_in_progress) = (Some(offset), sync_in_progress);
    world.plan_for(&observed)
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.deeds.iter().map(|deed| deed.reason).collect()
}

const VOLATILE: &str = "shards: 3\nreplicas: 1";
const KEPT: &str = "shards: 3\nreplicas: 1\npersistence: {size: 1Gi}";

#[test]
fn a_full_copy_takes_over() {
    for spec in [VOLATILE, KEPT] {
        let plan = orphaned(spec, 100, false);
        assert_eq!(reasons(&plan), ["PrimaryLost"]);
        assert_eq!(plan.promotions, BTreeSet::from([0]));
        assert!(plan.heals, "also if a write is refused");
    }
}

#[test]
fn data_on_volumes_is_not_given_up_for_a_replica_that_has_none_of_it() {
    for (offset, copies) in [(0, false), (100, true)] {
        let plan = orphaned(KEPT, offset, copies);
        assert_eq!((plan.promotions.len(), plan.waits.len()), (0, 1), "{plan:#?}");
        assert!(plan.waits[0].contains("no replica of shard 0 ever was a full copy"), "{:?}", plan.waits);
    }
}

#[test]
fn data_that_died_with_its_pod_is_told_of_when_its_slots_are_served_without_it() {
    let plan = orphaned(VOLATILE, 0, false);
    assert_eq!(reasons(&plan), ["DataLost", "PrimaryLost"]);
    assert_eq!(plan.promotions, BTreeSet::from([0]));
}
