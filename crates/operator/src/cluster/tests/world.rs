//! A cluster with everything around it, in memory: passes of the controller on one side, Kubernetes and servers that move
//! by themselves on the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cluster::ClusterPhase;
use api::{ValkeyCluster, ValkeyClusterSpec, ValkeyClusterStatus, names};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::metrics::Numbers;
use secrecy::{ExposeSecret as _, SecretString};
use valkey::Version;
use valkey::acl::{AclChange, Listed, SystemUser};

use super::super::act::Outcome;
use super::super::command::{Command, Order};
use super::super::numbers;
use super::super::observe::{Certificates, Observed, ObservedNode, PodStage};
use super::super::plan::{self, Plan, Step, was_formed};
use super::super::server::ServerView;
use super::super::status::{self, Seen};
use super::super::topology::{Place, Topology};
use super::super::users::{self, Judged, Passwords, Users, passwords};
use super::super::validate::{Desired, validate};
use super::claims::Claims;
use super::kubernetes::{self, Kubernetes};
use super::moves::{self, Stopped};
use super::servers::{self, Server, Servers};
use crate::heartbeats::Agent;
use crate::objects::Kind;
use crate::settings::Settings;

/// Every name is another one, so that two of them swapped are noticed.
pub(super) const CLUSTER: &str = "gamma";
pub(super) const NAMESPACE: &str = "team";
/// What the tests put where a secret may be.
pub(super) const SECRET: &str = "hunter2hunter2";

/// A cluster of this spec (YAML).
pub(super) fn cluster(spec: &str) -> ValkeyCluster {
    let spec: ValkeyClusterSpec = serde_saphyr::from_str(spec).expect("should be a spec");
    let mut cluster = ValkeyCluster::new(CLUSTER, spec);
    cluster.metadata.namespace = Some(NAMESPACE.to_owned());
    cluster.metadata.uid = Some("uid-of-gamma".to_owned());
    cluster.metadata.generation = Some(1);
    cluster
}

/// Point in time number `second`.
pub(super) fn at(second: u32) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + i64::from(second)).expect("should be in range")
}

/// What a pass of the controller did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Objects written, as `Kind name`.
    pub(super) written: Vec<String>,
    /// Commands that servers took, as `COMMAND at shard-index`.
    pub(super) obeyed: Vec<String>,
    /// The same as they were given.
    pub(super) orders: Vec<Order>,
    /// Commands that servers refused, with their words.
    pub(super) refused: Vec<String>,
    /// Reasons of the events.
    pub(super) told: Vec<&'static str>,
    /// The status differs from the one before.
    pub(super) news: bool,
    /// It was cut off before its end.
    pub(super) crashed: bool,
}

impl Passed {
    pub(super) fn did_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// A cluster, what there is of it, and a controller.
#[derive(Clone, Debug)]
pub(in super::super) struct World {
    pub(super) cluster: ValkeyCluster,
    pub(super) settings: Settings,
    pub(super) kubernetes: Kubernetes,
    pub(super) servers: Servers,
    /// What servers run that are born from now on.
    pub(super) release: Version,
    /// Which of the commands that may be given at the same time comes first.
    pub(super) turn: usize,
    /// Slots that somebody else has just opened are left alone.
    pub(super) is_patient: bool,
    /// Deeds after which a pass has no time left to move slots.
    pub(super) time: usize,
    /// What the last pass said in numbers.
    pub(super) numbers: Numbers,
    /// Nodes whose kubelets bring no changed Secret for the time being.
    pub(super) late_mounts: BTreeSet<Place>,
    /// Places whose servers have not been started yet, whatever their pods say.
    pub(super) late_servers: BTreeSet<Place>,
    /// Whether agents do what they are told, as far as anybody knows.
    pub(super) obeys: Option<bool>,
    /// What only this run of the controller knows.
    remembered: Passwords,
    /// Counts everything that must be new: versions, uids, addresses, moments.
    clock: u32,
}

impl World {
    /// Nothing but the cluster's spec exists.
    pub(super) fn empty(spec: &str) -> Self {
        Self {
            cluster: cluster(spec),
            settings: Settings::default(),
            kubernetes: Kubernetes::default(),
            servers: Servers::new(),
            release: Version::new(9, 1, 2),
            turn: 0,
            is_patient: false,
            time: usize::MAX,
            numbers: Numbers::default(),
            late_mounts: BTreeSet::new(),
            late_servers: BTreeSet::new(),
            obeys: Some(true),
            remembered: Passwords::default(),
            clock: 0,
        }
    }

    /// A cluster that has come to rest.
    pub(in super::super) fn settled(spec: &str) -> Self {
        Self::settled_on(Version::new(9, 1, 2), spec)
    }

    /// A cluster of another release that has come to rest.
    pub(super) fn settled_on(release: Version, spec: &str) -> Self {
        let mut world = Self { release, ..Self::empty(spec) };
        world.come_to_rest(32).unwrap_or_else(|| panic!("should come to rest: {:#?}", world.status()));
        world
    }

    pub(super) fn status(&self) -> ValkeyClusterStatus {
        self.cluster.status.clone().unwrap_or_default()
    }

    pub(super) fn phase(&self) -> Option<ClusterPhase> {
        self.status().phase
    }

    pub(in super::super) fn desired(&self) -> Desired {
        validate(&self.cluster, &self.settings).expect("should be valid")
    }

    pub(super) fn next_number(&mut self) -> u32 {
        self.clock += 1;
        self.clock
    }

    /// Everybody but the controller does what they do by themselves.
    pub(super) fn tick(&mut self) {
        self.next_number();
        kubernetes::tick(self);
        servers::tick(&mut self.servers);
    }

    fn stored_passwords(&self) -> Option<Arc<Secret>> {
        self.kubernetes.typed(Kind::Secret, &names::system_passwords_secret(CLUSTER))
    }

    /// The passwords this run of the controller has: from the Secret, from memory, or made now.
    fn hold(&mut self, desired: &Desired) -> Passwords {
        let before = std::mem::take(&mut self.remembered);
        let stored = self.stored_passwords();
        self.remembered = passwords::choose(desired, stored.as_deref(), &before, || self.fresh());
        self.remembered.clone()
    }

    fn fresh(&mut self) -> SecretString {
        SecretString::from(format!("{SECRET}-{}", self.next_number()))
    }

    /// What the controller sees.
    pub(in super::super) fn observe(&mut self) -> Observed {
        let desired = self.desired();
        let held = self.hold(&desired);
        let keys: Vec<SecretString> = held.accepted(SystemUser::Operator);
        let replication = held.users[&SystemUser::Replication].clone();
        let kubernetes = &self.kubernetes;
        let nodes = kubernetes.nodes().into_iter().map(|(place, node)| {
            let pod = kubernetes.pods.get(&place).map(|pod| pod.facts.clone());
            // Once it has known all slots, a pod stays ready.
            let has_past = pod.as_ref().is_some_and(|pod| pod.stage == PodStage::Ready);
            let address = pod.as_ref().and_then(|pod| pod.address.as_ref());
            let started = self.servers.get(&place).filter(|_| !self.late_servers.contains(&place));
            let server = match (address, started) {
                (None, _) => ServerView::NotAsked,
                (Some(_), None) => ServerView::Unreachable("connection refused".to_owned()),
                (Some(_), Some(server)) if keys.iter().any(|key| lets_in(server, key)) => {
                    let mut facts = server.facts(&self.servers);
                    facts.shows_old_password = replication.previous.is_some()
                        && replication.current.expose_secret() != server.primaryauth;
                    ServerView::Answering(Box::new(facts))
                }
                (Some(_), Some(_)) => ServerView::NotAuthenticated("WRONGPASS".to_owned()),
            };
            (
                place,
                ObservedNode {
                    shard: place.0,
                    index: place.1,
                    node,
                    pod,
                    another_pod_leaves: false,
                    has_past,
                    agent: Agent::Heard,
                    obeys: self.obeys,
                    death: None,
                    server,
                },
            )
        });
        Observed {
            nodes: nodes.collect(),
            headless_service: kubernetes.typed(Kind::Service, &names::cluster_service(CLUSTER)),
            client_service: kubernetes.typed(Kind::Service, &names::cluster_client_service(CLUSTER)),
            budget: kubernetes.typed(Kind::PodDisruptionBudget, &names::cluster_budget(CLUSTER)),
            passwords: self.stored_passwords(),
            users_file: kubernetes.typed(Kind::Secret, &names::acl_secret(CLUSTER)),
            certificates: Certificates {
                bundle: kubernetes.typed(Kind::ValkeyCertificateBundle, &names::mtls_bundle(CLUSTER)),
                operator: kubernetes.typed(Kind::ValkeyCertificateBinding, &names::operator_binding(CLUSTER)),
                nodes: kubernetes.bindings(),
                stored: kubernetes.signed.clone(),
                untouchable: kubernetes.untouchable.clone(),
            },
            collisions: Vec::new(),
        }
    }

    /// The users, where a server that answers finds nothing wrong with any.
    pub(super) fn users(&mut self, desired: &Desired, observed: &Observed, topology: &Topology<'_>) -> Users {
        let held = self.hold(desired);
        let answers = observed.nodes.values().any(|node| node.server.facts().is_some());
        let declared = Judged { users: answers.then(Vec::new), problems: Vec::new() };
        let before = self.status();
        let users = users::assemble(desired, observed, topology, &before, held, &declared, || self.fresh());
        self.remembered = users.passwords.clone();
        users
    }

    /// A pass of the controller.
    pub(super) fn pass(&mut self) -> Passed {
        self.pass_until(usize::MAX)
    }

    /// A pass that ends after so many of its deeds, the writing of the status among them, because the controller dies.
    pub(super) fn pass_until(&mut self, deeds: usize) -> Passed {
        let before = self.status();
        let desired = self.desired();
        let observed = self.observe();
        let topology = Topology::of(&observed, NAMESPACE);
        let in_use = self.hold(&desired).users[&SystemUser::Replication].current.clone();
        let users = self.users(&desired, &observed, &topology);
        let left_behind = if self.is_patient { BTreeSet::new() } else { plan::open_slots(&topology) };
        let plan =
            plan::plan(&desired, &observed, &topology, &users, &before, &BTreeSet::new(), &left_behind);
        assert_slots_are_handed_out_once(&plan, &before);
        let mut left = deeds;
        let mut passed = Passed::default();
        if !self.act(&plan, &in_use, &mut left, &mut passed) || left == 0 {
            self.remembered = Passwords::default();
            return Passed { crashed: true, ..passed };
        }
        let outcome = Outcome {
            written: passed.written.clone(),
            refused: passed.refused.clone(),
            commands: passed.obeyed.len(),
            obeyed: passed.orders.clone(),
            ..Outcome::default()
        };
        let seen = Seen { desired: &desired, observed: &observed, topology: &topology, users: &users };
        let now = at(self.next_number());
        let after = status::status(&seen, &plan, &outcome, &before, now);
        self.numbers = numbers::numbers(&seen, &outcome, &before, &after, now);
        passed.news = after != before;
        passed.told = plan.deeds.iter().map(|deed| deed.reason).collect();
        self.cluster.status = Some(after);
        passed
    }

    /// The status after a pass over something observed that does nothing. What came of it can be changed before.
    pub(super) fn status_after(
        &mut self,
        observed: &Observed,
        change: impl FnOnce(&mut Users, &mut Plan, &mut Outcome),
    ) -> ValkeyClusterStatus {
        let (desired, before) = (self.desired(), self.status());
        let topology = Topology::of(observed, NAMESPACE);
        let mut users = self.users(&desired, observed, &topology);
        let mut plan =
            plan::plan(&desired, observed, &topology, &users, &before, &BTreeSet::new(), &BTreeSet::new());
        let mut outcome = Outcome::default();
        change(&mut users, &mut plan, &mut outcome);
        let seen = Seen { desired: &desired, observed, topology: &topology, users: &users };
        status::status(&seen, &plan, &outcome, &before, at(500))
    }

    /// What the controller would do about what it sees.
    pub(super) fn plan_for(&mut self, observed: &Observed) -> Plan {
        let (desired, status) = (self.desired(), self.status());
        let topology = Topology::of(observed, NAMESPACE);
        let users = self.users(&desired, observed, &topology);
        let (none, nothing) = (BTreeSet::new(), BTreeSet::new());
        plan::plan(&desired, observed, &topology, &users, &status, &none, &nothing)
    }

    /// Whether it came to the end of the plan.
    fn act(&mut self, plan: &Plan, in_use: &SecretString, left: &mut usize, passed: &mut Passed) -> bool {
        for write in &plan.writes {
            if !may_go_on(left) {
                return false;
            }
            let version = self.next_number();
            self.kubernetes.perform(write, version);
            passed.written.push(super::described(write));
        }
        for (place, changes) in &plan.users {
            if !may_go_on(left) {
                return false;
            }
            let server = self.servers.get_mut(place).expect("should have answered");
            for change in changes {
                change_users(&mut server.users, change);
            }
            passed.obeyed.push(format!("ACL at {}-{}", place.0, place.1));
        }
        let trifles = (!plan.trifles.is_empty()).then_some(&plan.trifles);
        for stage in plan.stages.iter().chain(trifles) {
            let mut stage = stage.clone();
            let first = self.turn % stage.len();
            stage.rotate_left(first);
            let refused = passed.refused.len();
            for command in &stage {
                let told = format!("{} at {}-{}", command.order.name(), command.at.0, command.at.1);
                match self.command(command, left) {
                    Ok(()) => {
                        if command.order == Order::RenewPassword {
                            let server = self.servers.get_mut(&command.at).expect("should have answered");
                            in_use.expose_secret().clone_into(&mut server.primaryauth);
                        }
                        passed.obeyed.push(told);
                        passed.orders.push(command.order.clone());
                    }
                    Err(Stopped::Refused(words)) => passed.refused.push(format!("{told}: {words}")),
                    Err(Stopped::Died) => return false,
                }
            }
            if passed.refused.len() > refused {
                return true;
            }
        }
        if let Some(Step::RemoveNode { node, .. }) = &plan.step {
            if !may_go_on(left) {
                return false;
            }
            self.kubernetes.delete(Kind::ValkeyNode, node);
            passed.written.push(format!("delete {node}"));
        }
        true
    }

    fn command(&mut self, command: &Command, left: &mut usize) -> Result<(), Stopped> {
        if let Order::Carry(route) = &command.order {
            return moves::carry(&mut self.servers, command.at, route, left, self.time);
        }
        if !may_go_on(left) {
            return Err(Stopped::Died);
        }
        let obeyed = if let Order::Migrate { ranges, to } = &command.order {
            moves::migrate(&mut self.servers, command.at, ranges, to)
        } else {
            self.servers.get_mut(&command.at).expect("should have answered").obey(&command.order)
        };
        obeyed.map_err(Stopped::Refused)
    }

    /// Passes until nothing is left to do and nothing moves, as many as are needed; `None` if that takes too many.
    pub(super) fn come_to_rest(&mut self, at_most: usize) -> Option<usize> {
        (0..at_most).find(|_| {
            self.pass();
            self.tick();
            self.is_at_rest()
        })
    }

    /// A pass would do nothing, and reports that all is well.
    pub(super) fn is_at_rest(&self) -> bool {
        self.phase() == Some(ClusterPhase::Ready) && self.clone().pass().did_nothing()
    }

    /// The pod of a node is made anew, and its server keeps its data and its identity.
    pub(super) fn replace_pod(&mut self, place: Place) {
        self.kubernetes.pods.remove(&place).expect("should have a pod");
    }

    /// The pod of a node is made anew, and its server has lost everything.
    pub(super) fn lose(&mut self, place: Place) {
        self.replace_pod(place);
        self.servers.remove(&place).expect("should have a server");
    }

    /// A server runs at another address from one moment to the next.
    pub(super) fn move_to(&mut self, place: Place, address: &str) {
        let number = self.next_number();
        let pod = self.kubernetes.pods.get_mut(&place).expect("should have a pod");
        pod.facts.address = Some(address.to_owned());
        let mounted = pod.mounted.as_ref().expect("should have started");
        self.servers.get_mut(&place).expect("should have a server").restarted_at(number, address, mounted);
    }

    /// A server starts again in its pod, with what its kubelet has mounted.
    pub(super) fn restart(&mut self, place: Place) {
        let address = self.server(place).address.clone();
        self.move_to(place, &address);
    }

    pub(super) fn assert_no_slot_is_owned_twice(&self) {
        let mut taken = Claims::default();
        for (place, server) in &self.servers {
            for range in server.slots() {
                assert!(!taken.is_claimed(range), "{range} of {place:?} is owned twice: {taken:#?}");
                taken.give(range, Some(&server.id));
            }
        }
    }

    /// The member at a place, while it is there.
    pub(super) fn server(&self, place: Place) -> &Server {
        self.servers.get(&place).expect("should have a server")
    }
}

/// Slots are handed out to make a cluster, and never again, unless the last copy of them is known to be gone.
fn assert_slots_are_handed_out_once(plan: &Plan, before: &ValkeyClusterStatus) {
    let hands_out = plan.stages.iter().flatten().any(|command| matches!(command.order, Order::AddSlots(_)));
    let given_up = plan.deeds.iter().any(|deed| deed.reason == "SlotsServedAgain");
    assert!(!(was_formed(before) && hands_out) || given_up, "should leave slots alone: {:#?}", plan.stages);
}

/// Whether there is a deed left before the controller dies.
fn may_go_on(left: &mut usize) -> bool {
    let go_on = *left > 0;
    *left = left.saturating_sub(1);
    go_on
}

fn lets_in(server: &Server, password: &SecretString) -> bool {
    server.lets_in(SystemUser::Operator, password.expose_secret())
}

fn change_users(users: &mut Listed, change: &AclChange) {
    match change {
        AclChange::Set { name, rules } => {
            let words: Vec<&str> = rules.words().filter(|word| *word != "reset").collect();
            let line = format!("user {name} {}", words.join(" "));
            users.users.extend(Listed::parse(&[line]).users);
        }
        AclChange::Delete { name } => drop(users.users.remove(name)),
    }
}
