//! Primaries that are silent: while the others can elect, nothing is done; where they cannot, nobody takes over from a
//! server that may still live.

use std::collections::BTreeSet;

use api::ValkeyClusterStatus;
use valkey::client::FailoverMode;
use valkey::cluster::Flag;

use super::super::command::Order;
use super::super::observe::{Observed, PodStage};
use super::super::plan::{self, Plan, Step};
use super::super::server::ServerView;
use super::super::topology::{Place, Topology};
use super::world::{NAMESPACE, World};

const VOLATILE: &str = "shards: 3\nreplicas: 1";
const KEPT: &str = "shards: 3\nreplicas: 1\npersistence: {size: 1Gi}";

/// What was seen of a settled cluster, to be falsified.
struct Scene {
    world: World,
    observed: Observed,
}

impl Scene {
    fn of(spec: &str) -> Self {
        let mut world = World::settled(spec);
        let observed = world.observe();
        Self { world, observed }
    }

    fn silence(mut self, places: &[Place], suspected: bool) -> Self {
        for place in places {
            let node = self.observed.nodes.get_mut(place).expect("should be there");
            node.server = ServerView::Unreachable("no answer".to_owned());
            node.pod.as_mut().expect("should have a pod").stage = PodStage::Started;
        }
        let ids: Vec<String> = places.iter().map(|place| self.world.server(*place).id.clone()).collect();
        for node in self.observed.nodes.values_mut() {
            let ServerView::Answering(facts) = &mut node.server else { continue };
            for known in facts.nodes.nodes.iter_mut().filter(|known| ids.contains(&known.id)) {
                known.flags.extend(suspected.then_some(Flag::PossiblyFailed));
            }
        }
        self
    }

    fn without_pod(mut self, place: Place) -> Self {
        self.observed.nodes.get_mut(&place).expect("should be there").pod = None;
        self
    }

    fn leaving(mut self, place: Place, overdue: bool) -> Self {
        let node = self.observed.nodes.get_mut(&place).expect("should be there");
        let pod = node.pod.as_mut().expect("should have a pod");
        (pod.terminating, pod.overdue) = (true, overdue);
        self
    }

    fn plan_after(&mut self, status: &ValkeyClusterStatus) -> Plan {
        let desired = self.world.desired();
        let topology = Topology::of(&self.observed, NAMESPACE);
        let users = self.world.users(&desired, &self.observed, &topology);
        let (none, nothing) = (BTreeSet::new(), BTreeSet::new());
        plan::plan(&desired, &self.observed, &topology, &users, status, &none, &nothing)
    }

    fn plan(&mut self) -> Plan {
        let status = self.world.status();
        self.plan_after(&status)
    }
}

fn takeovers(plan: &Plan) -> Vec<Place> {
    let takes = |order: &Order| *order == Order::Failover(FailoverMode::Takeover);
    plan.stages.iter().flatten().filter(|command| takes(&command.order)).map(|command| command.at).collect()
}

fn next(plan: &Plan) -> Option<String> {
    plan.undertaking.as_ref().and_then(|undertaking| undertaking.next.clone())
}

#[test]
fn a_majority_elects_by_itself() {
    let plan = Scene::of(VOLATILE).silence(&[(0, 0)], true).plan();
    assert_eq!((takeovers(&plan), next(&plan)), (vec![], None));
}

#[test]
fn what_only_the_operator_does_not_hear_is_left_alone() {
    let plan = Scene::of(VOLATILE).silence(&[(0, 0), (1, 0)], false).plan();
    assert_eq!((takeovers(&plan), next(&plan)), (vec![], None));
}

#[test]
fn pods_of_silent_primaries_are_announced_and_then_deleted_one_by_one() {
    let mut scene = Scene::of(VOLATILE).silence(&[(0, 0), (1, 0)], true);
    let announced = scene.plan();
    assert_eq!((takeovers(&announced), &announced.step), (vec![], &None));
    let step = next(&announced).expect("should be announced");
    assert!(step.contains("is dead"), "{step}");
    let mut status = scene.world.status();
    let undertaking = announced.undertaking.expect("should be there");
    status.orchestration = Some(api::cluster::Orchestration {
        name: undertaking.name.to_owned(),
        step: undertaking.next,
        ..Default::default()
    });
    let taken = scene.plan_after(&status);
    assert!(matches!(taken.step, Some(Step::FencePod { .. })), "{:?}", taken.step);
    assert!(taken.heals, "also if a write is refused");
    assert_eq!(takeovers(&taken), []);
}

#[test]
fn replicas_take_over_one_by_one_from_primaries_whose_pods_are_gone() {
    let places = [(0, 0), (1, 0)];
    let gone =
        |spec: &str| Scene::of(spec).silence(&places, true).without_pod((0, 0)).without_pod((1, 0)).plan();
    let plan = gone(VOLATILE);
    assert_eq!(takeovers(&plan).len(), 1, "{:?}", plan.stages);
    assert_eq!(takeovers(&gone(KEPT)), [], "data on a volume comes back with the next pod");
}

/// A machine that is out of reach may still run the server: only a person can know.
#[test]
fn an_end_that_nobody_confirms_waits_for_the_user() {
    let scene = || Scene::of(KEPT).silence(&[(0, 0), (1, 0)], true);
    let soon = scene().leaving((0, 0), false).leaving((1, 0), false).plan();
    assert!(soon.waits.is_empty() && takeovers(&soon).is_empty(), "{soon:?}");
    let mut lost = scene().leaving((0, 0), true).leaving((1, 0), true);
    let plan = lost.plan();
    assert_eq!((takeovers(&plan), plan.waits.len()), (vec![], 2));
    assert!(plan.waits[0].contains(api::keys::DEAD_NODES), "{:?}", plan.waits);
    let name = lost.observed.nodes[&(0, 0)].name().to_owned();
    let word = (api::keys::DEAD_NODES.to_owned(), format!("somebody, {name}"));
    lost.world.cluster.metadata.annotations = Some([word].into());
    let plan = lost.plan();
    assert_eq!((takeovers(&plan), plan.waits.len()), (vec![(0, 1)], 1));
}

#[test]
fn a_server_that_reads_its_data_is_left_alone() {
    let mut scene = Scene::of(KEPT).silence(&[(0, 0), (1, 0)], true);
    for place in [(0, 0), (1, 0)] {
        scene.observed.nodes.get_mut(&place).expect("should be there").server = ServerView::Loading;
    }
    let plan = scene.plan();
    assert_eq!((takeovers(&plan), next(&plan)), (vec![], None));
}

/// Its own machine finds it well: it is the operator, and those on its side, who are cut off.
#[test]
fn a_silent_server_that_its_machine_calls_ready_is_left_alone() {
    let mut scene = Scene::of(VOLATILE).silence(&[(0, 0), (1, 0)], true);
    for place in [(0, 0), (1, 0)] {
        let node = scene.observed.nodes.get_mut(&place).expect("should be there");
        node.pod.as_mut().expect("should have a pod").stage = PodStage::Ready;
    }
    let plan = scene.plan();
    assert_eq!((takeovers(&plan), next(&plan)), (vec![], None));
    assert_eq!(plan.waits.len(), 2);
    assert!(plan.waits[0].contains("if the server hangs, delete the pod"), "{:?}", plan.waits);
}

/// A word that was given once must not be about a server that lives now.
#[test]
fn an_old_word_of_the_user_does_not_count_for_a_pod_that_stays() {
    let mut scene = Scene::of(VOLATILE).silence(&[(0, 0), (1, 0)], true);
    let names = [(0, 0), (1, 0)].map(|place| scene.observed.nodes[&place].name().to_owned());
    let word = (api::keys::DEAD_NODES.to_owned(), names.join(","));
    scene.world.cluster.metadata.annotations = Some([word].into());
    let plan = scene.plan();
    assert_eq!(takeovers(&plan), []);
    assert!(next(&plan).is_some_and(|step| step.contains("is dead")), "its pod is ended first");
}

/// A Deployment makes a new pod before the old one is gone: the new server is no proof that the old one is dead.
#[test]
fn nobody_takes_over_while_an_older_pod_of_the_primary_is_not_gone() {
    let mut world = World::settled(VOLATILE);
    world.lose((0, 0));
    let mut observed = world.observe();
    while observed.nodes[&(0, 0)].server.facts().is_none() {
        world.tick();
        observed = world.observe();
    }
    let promoted =
        |plan: &Plan| plan.stages.iter().flatten().any(|command| matches!(command.order, Order::Failover(_)));
    let plan = |world: &World, observed: &Observed| {
        Scene { world: world.clone(), observed: observed.clone() }.plan()
    };
    assert!(promoted(&plan(&world, &observed)), "its pod is gone");
    observed.nodes.get_mut(&(0, 0)).expect("should be there").another_pod_leaves = true;
    assert!(!promoted(&plan(&world, &observed)), "its older pod is not");
}

/// Nothing of a shard that leaves is removed while somebody silent owns its slots.
#[test]
fn a_leaving_shard_keeps_its_nodes_while_its_primary_is_silent() {
    let mut scene = Scene::of(VOLATILE).silence(&[(2, 0)], true);
    scene.world.cluster.spec.shards = 2;
    let mut status = scene.world.status();
    for _ in 0..3 {
        let plan = scene.plan_after(&status);
        assert_eq!((next(&plan), &plan.step), (None, &None), "{plan:?}");
        status.orchestration = plan.undertaking.map(|undertaking| api::cluster::Orchestration {
            name: undertaking.name.to_owned(),
            step: undertaking.next,
            ..Default::default()
        });
    }
}

/// A server that answers at the address of another one is not that one.
#[test]
fn a_stranger_at_the_address_of_a_node_is_not_taken_for_it() {
    let scene = Scene::of(VOLATILE);
    let node = &scene.observed.nodes[&(0, 0)];
    let host = api::names::announced_host(node.name(), NAMESPACE);
    assert!(node.server.clone().if_called(&host).facts().is_some());
    assert!(node.server.clone().if_called("valkey-other.team.svc").facts().is_none());
}
