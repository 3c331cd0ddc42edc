//! What becomes of a cluster in a life of changes, under operators that die.

use std::time::{Duration, Instant};

use api::ValkeyCluster;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::clusters::{Server, WHOLE_WITHIN, condition};
use crate::crash::{End, Operator};
use crate::faults::Fault;
use crate::objects::uid;
use crate::witness::Verdict;
use crate::{World, wait};

/// For how long clients may wait in vain after each fault, on a machine that has time for it.
pub mod away {
    use std::time::Duration;

    /// A primary's server was killed, or its pod deleted: its replica is told to take over.
    pub const ONE_PRIMARY: Duration = Duration::from_secs(5);
    /// Two of three were killed: nobody votes, and each is replaced after the other.
    pub const MOST_PRIMARIES: Duration = Duration::from_secs(20);
    /// Two of three hang: they are ended first, and their probes take their time.
    pub const HUNG: Duration = Duration::from_secs(90);
    /// A machine is missed for three seconds, and then its primaries are replaced.
    pub const ONE_MACHINE: Duration = Duration::from_secs(6);
    /// Everybody comes back from volumes, at other addresses.
    pub const ALL_PODS: Duration = Duration::from_secs(15);
    /// In which time Kubernetes starts six servers on a machine that has time for them.
    pub const STARTED: Duration = Duration::from_secs(10);
}

/// How long a change may take while operators die again and again.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a life begins with.
fn first_shape() -> Value {
    json!({"shards": 2, "replicas": 1})
}

/// A part of a cluster's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Chapter {
    /// From nothing to ready.
    Creation,
    /// One shard more.
    ScaleOut,
    /// One shard less.
    ScaleIn,
    /// Every pod restarted.
    Roll,
}

impl Chapter {
    /// All of them, in an order in which one leads to the next.
    pub const ALL: [Self; 4] = [Self::Creation, Self::ScaleOut, Self::ScaleIn, Self::Roll];

    async fn begin(self, world: &World, name: &str) {
        match self {
            Self::Creation => world.begin_witnessed_cluster(name, first_shape()).await,
            Self::ScaleOut => world.change_cluster(name, json!({"shards": 3})).await,
            Self::ScaleIn => world.change_cluster(name, json!({"shards": 2})).await,
            Self::Roll => crate::changes::ask_for_restart(world, name).await,
        }
    }
}

/// Makes the cluster that the chapters after the first are about. The installed operator must be scaled to zero.
pub async fn create(world: &World, name: &str) {
    let operator = Operator::start(world, None);
    world.witnessed_cluster(name, first_shape()).await;
    operator.stop().await;
}

/// Lets a fault befall some servers at once, under the witness, and waits until the cluster is whole.
pub async fn befalls(world: &World, name: &str, fault: Fault, victims: &[Server]) -> (Verdict, Duration) {
    let work = Box::pin(async {
        let again = async {
            for victim in victims {
                started_again(world, victim).await;
            }
        };
        fault.during(world, &pods(victims), again).await;
    });
    let (verdict, took) = world.under_witness(name, work).await;
    eprintln!("{fault} of {}: whole again after {took:?}\n{verdict}", victims.len());
    (verdict, took)
}

/// Lets the machine under one primary lose its power until the others serve every slot without it, under the witness. The
/// primary shares its machine with no other one: with two of three gone, nobody could be voted in.
pub async fn loses_a_machine(world: &World, name: &str) -> (Verdict, Duration) {
    world.wait_led(name).await;
    let primaries = world.primaries(name).await;
    let machine = |server: &Server| server.pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let alone = |one: &&Server| primaries.iter().filter(|other| machine(other) == machine(one)).count() == 1;
    let victim = primaries.iter().find(alone).expect("the primaries should not all be on one machine");
    let served = async {
        wait::until("every slot is served without the machine", WHOLE_WITHIN, async || {
            let status = world.cluster_status(name).await;
            let slots = status.summary.map(|summary| summary.slots).unwrap_or_default();
            let served = slots == "16384/16384" && status.phase != Some(api::cluster::ClusterPhase::Ready);
            if served { Ok(()) } else { Err((slots, status.message)) }
        })
        .await;
    };
    // Mended whatever happens: others need the machine.
    let pods = pods(std::slice::from_ref(victim));
    let work = Box::pin(Fault::MachineLost.during(world, &pods, served));
    let (verdict, took) = world.under_witness(name, work).await;
    eprintln!("{}: whole again after {took:?}\n{verdict}", Fault::MachineLost);
    (verdict, took)
}

/// Lets every pod of a cluster be deleted at once, under the witness; also how long Kubernetes took until the last server ran
/// again.
pub async fn loses_all_pods(world: &World, name: &str) -> (Verdict, Duration, Duration) {
    let victims = world.cluster_servers(name).await;
    let deleted = jiff::Timestamp::now();
    let (verdict, took) = befalls(world, name, Fault::PodDeleted, &victims).await;
    let pods: Vec<Pod> = world.cluster_pods(name).await.into_iter().flatten().collect();
    let started = pods.iter().filter_map(crate::bench::clusters::ran_since).max().expect("should run");
    (verdict, took, Duration::try_from(started - deleted).unwrap_or_default())
}

/// The pods of servers.
pub fn pods(servers: &[Server]) -> Vec<Pod> {
    servers.iter().map(|server| server.pod.clone()).collect()
}

/// Another process serves the node: its pod is another one, or its container was started again.
pub async fn started_again(world: &World, before: &Server) {
    let restarts = |pod: &Pod| {
        let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        containers.into_iter().flatten().map(|one| one.restart_count).sum::<i32>()
    };
    let name = api::names::pod(&before.node);
    wait::until(&format!("{name} is started again"), WHOLE_WITHIN, async || {
        let Some(now) = world.find::<Pod>(&name).await else { return Err("no pod".to_owned()) };
        let another = uid(&now) != uid(&before.pod) || restarts(&now) > restarts(&before.pod);
        if another { Ok(()) } else { Err("the same".to_owned()) }
    })
    .await;
}

/// A part of a cluster's life under the witness: nothing that was acknowledged is lost, whoever dies.
pub async fn witnessed<T>(world: &World, name: &str, part: impl Future<Output = T>) -> T {
    let mut result = None;
    let work = Box::pin(async { result = Some(part.await) });
    let (verdict, _) = world.under_witness(name, work).await;
    verdict.assert_nothing_lost();
    result.expect("should have ended")
}

/// The operator dies after every few deeds, and another one starts, until the chapter is over. Returns how many died. The
/// installed operator must be scaled to zero.
pub async fn with_crash_after_crash(world: &World, name: &str, chapter: Chapter, deeds: usize) -> usize {
    chapter.begin(world, name).await;
    let begun = Instant::now();
    let mut died = 0;
    loop {
        let operator = Operator::start(world, Some(deeds));
        let end = dies_or_rests(world, &operator, name, chapter).await;
        operator.stop().await;
        if end == End::Stopped {
            break;
        }
        died += 1;
        assert!(
            begun.elapsed() < PATIENCE,
            "{chapter} of {name} does not come to its end: {died} operators died"
        );
    }
    world.wait_whole(name, WHOLE_WITHIN).await;
    died
}

/// The operator dies after the n-th deed of a chapter, another one ends it. `Stopped` if there were fewer.
pub async fn with_one_crash(world: &World, name: &str, chapter: Chapter, deeds: usize) -> End {
    chapter.begin(world, name).await;
    let first = Operator::start(world, Some(deeds));
    let end = dies_or_rests(world, &first, name, chapter).await;
    first.stop().await;
    let second = Operator::start(world, None);
    wait::until("the chapter ends", PATIENCE, async || ended(world, name, chapter).await).await;
    second.stop().await;
    world.wait_whole(name, WHOLE_WITHIN).await;
    end
}

async fn dies_or_rests(world: &World, operator: &Operator, name: &str, chapter: Chapter) -> End {
    let mut quiet = (operator.writes(), Instant::now());
    wait::until("the operator dies or has nothing left to do", PATIENCE, async || {
        if operator.is_dead() {
            return Ok(End::Crashed);
        }
        let writes = operator.writes();
        if writes != quiet.0 {
            quiet = (writes, Instant::now());
        }
        let over = ended(world, name, chapter).await;
        match over {
            Ok(()) if quiet.1.elapsed() > Duration::from_secs(3) => Ok(End::Stopped),
            Ok(()) => Err("it may still write".to_owned()),
            Err(why) => Err(why),
        }
    })
    .await
}

/// Ready, with nothing left to do, and with as many pods as it should have, all of them of the newest template. An operator that is
/// stopped before it has said so leaves nobody to say it.
async fn ended(world: &World, name: &str, chapter: Chapter) -> Result<(), String> {
    let cluster = world.get::<ValkeyCluster>(name).await;
    let status = cluster.status.unwrap_or_default();
    let pods: Vec<_> = world.cluster_pods(name).await.into_iter().flatten().collect();
    let wanted = if chapter == Chapter::ScaleOut { 6 } else { 4 };
    let restarted_at = cluster.metadata.annotations.as_ref().and_then(|all| all.get(api::keys::RESTARTED_AT));
    let newest = pods.iter().all(|pod| {
        pod.metadata.annotations.as_ref().and_then(|all| all.get(api::keys::RESTARTED_AT)) == restarted_at
    });
    let settled = condition(&status, "Progressing").is_some_and(|(state, ..)| state == "False");
    let ready =
        status.phase == Some(api::cluster::ClusterPhase::Ready) && status.orchestration.is_none() && settled;
    if ready && pods.len() == wanted && newest && status.observed_generation == cluster.metadata.generation {
        Ok(())
    } else {
        Err(format!("{} pods, {:?}: {:?}", pods.len(), status.phase, status.message))
    }
}
