//! Changes that people make to clusters on purpose. Under each of them clients lose nothing and notice next to nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::ValkeyCluster;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use valkey::client::FailoverMode;
use valkey::role::Role;

use crate::clusters::{Logins, witness_user};
use crate::faults::Fault;
use crate::objects::uid;
use crate::witness::Verdict;
use crate::{World, wait};

/// The longest time for which a shard may be without an acknowledged write while a change is made on purpose.
pub const NOTICED: Duration = Duration::from_millis(500);
/// The longest time for which a single write may wait meanwhile.
pub const WAITED: Duration = Duration::from_secs(1);
/// How much of a gap may be the machine's own doing: one that has no time for longer than this measures nothing.
pub const EXCUSED: Duration = Duration::from_secs(1);
/// The same where a pod was lost three seconds before.
pub const NOTICED_IN_A_HURRY: Duration = Duration::from_secs(2);
/// How long a roll of three shards with a replica each may take.
pub const ROLLED_WITHIN: Duration = Duration::from_secs(45);
/// How long one shard more may take, and one less.
pub const SCALED_WITHIN: [Duration; 2] = [Duration::from_secs(38), Duration::from_secs(26)];
/// How long pods may take to be what a change makes of them.
const PATIENCE: Duration = Duration::from_mins(3);

/// A change of a cluster of three shards with one replica each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Change {
    /// Every pod is restarted, as `kubectl rollout restart` does it.
    Restart,
    /// A directive that servers read at their start only.
    Directive,
    /// A directive that servers take while they run.
    LiveDirective,
    /// The image of a newer release.
    Image,
    /// One shard more.
    ScaleOut,
    /// Back to three shards.
    ScaleIn,
    /// A second replica in every shard.
    MoreReplicas,
    /// No replica in any shard.
    NoReplicas,
    /// One replica in every shard.
    OneReplica,
    /// Another user, and a new password of a user.
    Users,
}

impl Change {
    /// All of them, in an order in which each has something to change, beginning with an older release.
    pub const CAMPAIGN: [Self; 10] = [
        Self::Image,
        Self::LiveDirective,
        Self::Users,
        Self::Restart,
        Self::Directive,
        Self::ScaleOut,
        Self::ScaleIn,
        Self::MoreReplicas,
        Self::NoReplicas,
        Self::OneReplica,
    ];

    /// Makes the change and waits until it has reached every pod.
    pub async fn make(self, world: &World, cluster: &str) {
        match self {
            Self::Restart => {
                let before = uids(world, cluster).await;
                ask_for_restart(world, cluster).await;
                replaced(world, cluster, &before).await;
            }
            Self::Directive => {
                changed_by_restart(world, cluster, json!({"config": {"tcp-backlog": "300"}})).await;
            }
            Self::Image => {
                changed_by_restart(world, cluster, json!({"image": "valkey/valkey:9.1"})).await;
            }
            Self::LiveDirective => {
                world.change_cluster(cluster, json!({"config": {"maxmemory-policy": "allkeys-lru"}})).await;
                world.wait_directive(cluster, "maxmemory-policy", "allkeys-lru", PATIENCE).await;
            }
            Self::ScaleOut => reshaped(world, cluster, json!({"shards": 4}), 8).await,
            Self::ScaleIn => reshaped(world, cluster, json!({"shards": 3}), 6).await,
            Self::MoreReplicas => reshaped(world, cluster, json!({"replicas": 2}), 9).await,
            Self::NoReplicas => reshaped(world, cluster, json!({"replicas": 0}), 3).await,
            Self::OneReplica => reshaped(world, cluster, json!({"replicas": 1}), 6).await,
            Self::Users => users(world, cluster).await,
        }
    }

    /// Makes the change under the witness; also how long it took until the cluster was whole again.
    pub async fn witnessed(self, world: &World, cluster: &str) -> (Verdict, Duration) {
        let (verdict, took) = world.under_witness(cluster, Box::pin(self.make(world, cluster))).await;
        eprintln!("{self}: done after {took:?}\n{verdict}");
        (verdict, took)
    }
}

/// Makes a change and holds it to what clients may notice.
pub async fn unnoticed(world: &World, cluster: &str, change: Change) -> Duration {
    let (verdict, took) = change.witnessed(world, cluster).await;
    verdict.assert_nothing_lost();
    verdict.report.assert_no_failed_operations();
    let (gap, raw) = (verdict.report.noticed(), verdict.report.longest_gap().length);
    assert!(gap <= NOTICED, "{change}: a shard took no write for {gap:?}\n{verdict}");
    assert!(raw <= NOTICED + EXCUSED, "{change}: the machine had no time for the witness\n{verdict}");
    // A part of a shard may wait while the rest of it answers.
    let wait = verdict.report.waited();
    assert!(wait <= WAITED, "{change}: a write waited for {wait:?}\n{verdict}");
    took
}

/// Lets the second node of each of three shards lead.
pub async fn second_nodes_lead(world: &World, cluster: &str) {
    for shard in 0..3 {
        let second = world.cluster_server(cluster, &api::names::cluster_node(cluster, shard, 1)).await;
        let connection = second.open().await.expect("should answer");
        // After a roll it may lead already.
        if let Role::Replica { .. } = connection.role().await.expect("should answer") {
            connection.cluster_failover(FailoverMode::Planned).await.expect("should take over");
        }
    }
    wait::until("the second node of every shard leads", Duration::from_secs(30), async || {
        let shards = world.cluster_status(cluster).await.shard_details;
        let second = |shard: &api::cluster::ShardStatus| {
            let number = u32::try_from(shard.index).expect("should be a number");
            shard.primary.as_deref() == Some(&api::names::cluster_node(cluster, number, 1))
        };
        if shards.len() == 3 && shards.iter().all(second) { Ok(()) } else { Err(shards) }
    })
    .await;
    world.wait_cluster_ready(cluster).await;
}

/// Takes the replicas away three seconds after the pod of a primary was deleted, under the witness. The second nodes lead.
pub async fn no_replicas_in_a_hurry(world: &World, cluster: &str) -> (Verdict, Duration) {
    let primary = world.cluster_server(cluster, &api::names::cluster_node(cluster, 1, 1)).await;
    let work = async {
        let in_place = Fault::PodDeleted.begin(world, std::slice::from_ref(&primary.pod)).await;
        in_place.mend(world).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        Change::NoReplicas.make(world, cluster).await;
    };
    let (verdict, took) = world.under_witness(cluster, Box::pin(work)).await;
    eprintln!("no replicas soon after a lost pod: done after {took:?}\n{verdict}");
    (verdict, took)
}

/// Asks for a restart of every pod, as `kubectl rollout restart` does it.
pub async fn ask_for_restart(world: &World, cluster: &str) {
    let when = jiff::Timestamp::now().to_string();
    let restart = json!({"metadata": {"annotations": {api::keys::RESTARTED_AT: when}}});
    world.patch::<ValkeyCluster>(cluster, restart).await;
}

async fn pods(world: &World, cluster: &str) -> Vec<Pod> {
    world.cluster_pods(cluster).await.into_iter().flatten().collect()
}

async fn uids(world: &World, cluster: &str) -> BTreeMap<String, String> {
    pods(world, cluster).await.iter().map(|pod| (pod.name_any(), uid(pod))).collect()
}

async fn changed_by_restart(world: &World, cluster: &str, spec: Value) {
    let before = uids(world, cluster).await;
    world.change_cluster(cluster, spec).await;
    replaced(world, cluster, &before).await;
}

/// Every pod is another one than before.
async fn replaced(world: &World, cluster: &str, before: &BTreeMap<String, String>) {
    wait::until("every pod is replaced", PATIENCE, async || {
        let now = uids(world, cluster).await;
        let same: Vec<_> = before.iter().filter(|(name, uid)| now.get(*name) == Some(*uid)).collect();
        if same.is_empty() && now.len() == before.len() { Ok(()) } else { Err(format!("{same:?}")) }
    })
    .await;
}

/// There are so many pods, and the status says that nothing is left to do.
async fn reshaped(world: &World, cluster: &str, spec: Value, pods_wanted: usize) {
    world.change_cluster(cluster, spec).await;
    wait::until(&format!("there are {pods_wanted} pods"), PATIENCE, async || {
        let now = pods(world, cluster).await.len();
        if now == pods_wanted { Ok(()) } else { Err((now, world.cluster_status(cluster).await.message)) }
    })
    .await;
}

async fn users(world: &World, cluster: &str) {
    let secret = api::names::users_secret(cluster);
    let known = world.get::<Secret>(&secret).await.data.unwrap_or_default();
    let number = known.keys().cloned().collect::<BTreeSet<_>>().len();
    let (name, password) = (format!("user-{number}"), format!("secret-{number}"));
    let servers = world.cluster_servers(cluster).await;
    let change = async {
        world.patch::<Secret>(&secret, json!({"stringData": {&name: password}})).await;
        let user = json!({"name": name, "permissions": "+@all ~*"});
        world.change_cluster(cluster, json!({"users": [witness_user(), user]})).await;
    };
    let logins = Logins { good: &[(&name, &password)], bad: &[] };
    logins.after("a new user", change, &servers, PATIENCE).await;
    let changed = format!("{password}-changed");
    let change = async {
        world.patch::<Secret>(&secret, json!({"stringData": {&name: changed}})).await;
    };
    let logins = Logins { good: &[(&name, &changed)], bad: &[(&name, &password)] };
    logins.after("a changed password", change, &servers, PATIENCE).await;
}
