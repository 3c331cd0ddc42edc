//! Worlds to decide about: a node and everything that was seen of it, from nothing at all to all well.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::node::{ObservedRole, WorkloadType};
use api::{ValkeyNode, ValkeyNodeSpec, ValkeyNodeStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;

use super::super::act::{ConfigOutcome, Outcome};
use super::super::build::{self, Kind, Wanted};
use super::super::observe::{Observed, Workload};
use super::super::plan::{self, Plan, Write};
use super::super::server::{ServerFacts, ServerView};
use super::super::status;
use super::super::validate::{Desired, Storage, validate};
use super::{kubernetes, pods};

/// Every name is another one, so that two of them swapped are noticed.
pub(super) const NODE: &str = "alpha";
pub(super) const NAMESPACE: &str = "team";
pub(super) const PARENT: &str = "beta";
pub(super) const IMAGE: &str = "registry.test/valkey:9.1";
/// What the tests put where a secret may be.
pub(super) const SECRET: &str = "hunter2hunter2";

/// A node of this spec (YAML; the image is given) without a parent.
pub(super) fn node(spec: &str) -> ValkeyNode {
    let given = spec.lines().any(|line| line.starts_with("image:"));
    let rest = if spec == "{}" { "" } else { spec };
    let text = if given { rest.to_owned() } else { format!("image: {IMAGE}\n{rest}") };
    let spec: ValkeyNodeSpec = serde_saphyr::from_str(&text).expect("should be a spec");
    let mut node = ValkeyNode::new(NODE, spec);
    node.metadata.namespace = Some(NAMESPACE.to_owned());
    node.metadata.uid = Some("uid-of-alpha".to_owned());
    node.metadata.generation = Some(1);
    node
}

/// The same with a parent, which authorises restarts.
pub(super) fn owned_node(spec: &str) -> ValkeyNode {
    let mut node = node(spec);
    node.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "valkey.io/v1alpha1".to_owned(),
        kind: "ValkeyCluster".to_owned(),
        name: PARENT.to_owned(),
        uid: "uid-of-beta".to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    node.metadata.labels =
        Some(BTreeMap::from([("valkey.io/cluster".to_owned(), PARENT.to_owned()), label("other", "1")]));
    node
}

fn label(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// Point in time number `second`.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("should be in range")
}

/// A node, what was seen of it, and what its status remembers.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) node: ValkeyNode,
    pub(super) desired: Desired,
    pub(super) observed: Observed,
    pub(super) status: ValkeyNodeStatus,
    /// Counts everything that must be new: versions, uids, runs of the server.
    pub(super) clock: u32,
    /// The directives in the file a server would start from.
    pub(super) file: BTreeMap<String, String>,
}

impl World {
    /// Nothing but the node exists.
    pub(super) fn empty(node: ValkeyNode) -> Self {
        let desired = validate(&node).expect("should be valid");
        Self {
            node,
            desired,
            observed: Observed::default(),
            status: ValkeyNodeStatus::default(),
            clock: 100,
            file: BTreeMap::new(),
        }
    }

    /// Everything exists as wanted, the pod is ready, its server answers, and the status says so.
    pub(super) fn settled(spec: &str) -> Self {
        Self::settle(node(spec))
    }

    /// The same for a node with a parent that has allowed what runs.
    pub(super) fn settled_with_parent(spec: &str) -> Self {
        Self::settle(owned_node(spec))
    }

    fn settle(node: ValkeyNode) -> Self {
        let mut world = Self::empty(node);
        if let Storage::External(name) = &world.desired.storage {
            world.observed.claim = Some(Arc::new(kubernetes::claim_of_somebody(name)));
        }
        for wanted in world.wanted() {
            world.create(&wanted);
        }
        kubernetes::act(&mut world);
        world.status = world.pass_without_writes();
        world
    }

    /// All objects as they should be, in the order in which they are made.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let desired = &self.desired;
        let identity = &desired.identity;
        let mut wanted = Vec::new();
        if let Storage::Own(own) = &desired.storage {
            wanted.push(build::claim(identity, own, &own.size));
        }
        wanted.push(build::service(identity));
        wanted.push(build::config_map(identity, &desired.rendered_config));
        wanted.push(build::workload(
            identity,
            desired.workload_type,
            desired.update_strategy,
            &desired.template,
        ));
        wanted
    }

    /// The object of a kind that should be there.
    pub(super) fn wanted_of(&self, kind: Kind) -> Wanted {
        self.wanted().into_iter().find(|wanted| wanted.kind == kind).expect("should be wanted")
    }

    /// Another spec for the same node: one more generation.
    pub(super) fn change_spec(&mut self, change: impl FnOnce(&mut ValkeyNodeSpec)) {
        change(&mut self.node.spec);
        self.node.metadata.generation = self.node.metadata.generation.map(|generation| generation + 1);
        self.desired = validate(&self.node).expect("should be valid");
    }

    /// The parent allows the newest template.
    pub(super) fn authorise(&mut self) {
        let revision = self.desired.revision.clone();
        self.change_spec(|spec| spec.workload_revision = Some(revision));
    }

    pub(super) fn plan(&self) -> Plan {
        plan::plan(&self.desired, &self.observed, &self.status)
    }

    /// The status after a pass that went like this.
    pub(super) fn status_after(&self, outcome: &Outcome) -> ValkeyNodeStatus {
        let seconds = i64::from(self.clock);
        status::status(&self.desired, &self.observed, &self.plan(), outcome, &self.status, at(seconds))
    }

    /// The status after a pass in which nothing was done.
    pub(super) fn pass_without_writes(&self) -> ValkeyNodeStatus {
        self.status_after(&nothing_done())
    }

    /// The kind of the workload.
    pub(super) fn workload_kind(&self) -> Kind {
        match self.desired.workload_type {
            WorkloadType::StatefulSet => Kind::StatefulSet,
            WorkloadType::Deployment => Kind::Deployment,
            WorkloadType::Pod => Kind::Pod,
        }
    }

    /// Something new: the next version of an object, the uid of a pod, the run of a server.
    pub(super) fn tick(&mut self) -> u32 {
        self.clock += 1;
        self.clock
    }

    fn create(&mut self, wanted: &Wanted) {
        kubernetes::apply(self, wanted);
    }

    /// The pod is in another state.
    pub(super) fn pod_status(&mut self, status: &Value) {
        let pod = self.observed.pod.as_deref().expect("should have a pod");
        let pod = Arc::new(pods::with_status(pod, status));
        self.observed.server = ServerView::NotAsked;
        self.replace_pod(pod);
    }

    /// Change the pod in some way.
    pub(super) fn change_pod(&mut self, change: impl FnOnce(&mut k8s_openapi::api::core::v1::Pod)) {
        let mut pod = self.observed.pod.as_deref().expect("should have a pod").clone();
        change(&mut pod);
        self.replace_pod(Arc::new(pod));
    }

    fn replace_pod(&mut self, pod: Arc<k8s_openapi::api::core::v1::Pod>) {
        if let Some(Workload::Pod(_)) = self.observed.workload {
            self.observed.workload = Some(Workload::Pod(pod.clone()));
        }
        self.observed.pod = Some(pod);
    }

    /// Change an object in some way that nobody asked for.
    pub(super) fn meddle(&mut self, kind: Kind, change: impl FnOnce(&mut Value)) {
        let mut live = kubernetes::live(self, kind).expect("should exist");
        change(&mut live);
        kubernetes::store(self, kind, live);
    }

    /// What the server reports of itself.
    pub(super) fn facts(&self) -> ServerFacts {
        match &self.observed.server {
            ServerView::Answering(facts) => facts.as_ref().clone(),
            other => panic!("should answer: {other:?}"),
        }
    }

    /// The server reports something else.
    pub(super) fn change_facts(&mut self, change: impl FnOnce(&mut ServerFacts)) {
        let mut facts = self.facts();
        change(&mut facts);
        self.observed.server = ServerView::Answering(Arc::new(facts));
    }
}

/// A primary of a supported version that has these directives.
pub(super) fn primary(run: u32, config: &BTreeMap<String, String>) -> ServerFacts {
    ServerFacts {
        version: Some("9.1.2".to_owned()),
        supported: true,
        run_id: format!("run-{run}"),
        role: Some(ObservedRole::Primary),
        replica_of: None,
        config: config.clone(),
    }
}

/// The outcome of a pass in which nothing was to be done.
pub(super) fn nothing_done() -> Outcome {
    Outcome {
        written: Vec::new(),
        config: ConfigOutcome::Untouched,
        collision: None,
        pod_deleted: None,
        error: None,
    }
}

/// Every write of a plan in its order, as `verb kind`.
pub(super) fn writes(plan: &Plan) -> Vec<String> {
    plan.writes
        .iter()
        .chain(&plan.writes_after_config)
        .map(|write| match write {
            Write::Apply { wanted, create: true, .. } => format!("create {}", wanted.kind.name()),
            Write::Apply { wanted, create: false, .. } => format!("apply {}", wanted.kind.name()),
            Write::Merge { kind, .. } => format!("merge {}", kind.name()),
            Write::Delete { kind, .. } => format!("delete {}", kind.name()),
            Write::RemoveItems { kind, pointers, .. } => {
                format!("remove {} from {}", pointers.join(" "), kind.name())
            }
        })
        .collect()
}

/// The same without indices, which depend on the order of lists.
pub(super) fn verbs(plan: &Plan) -> Vec<String> {
    let verb = |write: &String| match write.split_once(" from ") {
        Some((_, kind)) => format!("remove from {kind}"),
        None => write.clone(),
    };
    writes(plan).iter().map(verb).collect()
}
