//! Prints what the operator costs and how quick it is, with the machine it was measured on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::ValkeyNode;
use e2e::bench::{clusters, footprint, scale, start};
use e2e::witness::{Settings, Witness};
use e2e::{World, operator, wait};
use kube::api::{Api, ListParams};
use serde_json::json;

const ROUNDS: usize = 5;
const MANY: usize = 50;
const MANY_CLUSTERS: usize = 20;
/// Rounds of moves of slots.
const MOVE_ROUNDS: usize = 3;
const MEGABYTES: usize = 1000;

/// Goals that were not reached: all of it is measured before the benchmark ends with an error.
#[derive(Default)]
struct Missed(Vec<String>);

impl Missed {
    fn unless(&mut self, reached: bool, what: impl Into<String>) {
        self.0.extend((!reached).then(|| what.into()));
    }

    /// At most so much.
    fn hold(&mut self, what: &str, is: f64, goal: f64) {
        self.unless(is <= goal, format!("{what}: {is:.2}, the goal is {goal}"));
    }
}

#[tokio::main]
async fn main() {
    // One of the parts alone; all of them if nothing is said.
    let only = std::env::args().nth(1);
    let wanted = |parts: &[&str]| only.as_deref().is_none_or(|only| parts.contains(&only));
    let world = World::open("bench").await;
    println!("machine: {}", machine());
    let before = processor_time();
    let mut missed = Missed::default();
    if wanted(&["nodes"]) {
        nodes(&world, &mut missed).await;
    }
    if wanted(&["clusters", "starts"]) {
        clusters_start(&world, &mut missed).await;
    }
    if wanted(&["clusters", "moves"]) {
        Box::pin(slots_move(&world, &mut missed)).await;
    }
    if wanted(&["clusters", "many"]) {
        many_clusters(&world, &mut missed).await;
    }
    world.close().await;
    // Times from a machine whose processors were given to others are those of the others.
    println!(
        "processor time that the machine wanted and did not get: {:.0} %",
        100.0 * processor_time().share_since(before)
    );
    assert!(missed.0.is_empty(), "goals that were not reached: {:#?}", missed.0);
}

/// Processor time since the machine was started, in its own units.
#[derive(Clone, Copy)]
struct ProcessorTime {
    used: f64,
    stolen: f64,
}

impl ProcessorTime {
    /// How much of what was wanted since then was given to others.
    fn share_since(self, before: Self) -> f64 {
        let (used, stolen) = (self.used - before.used, self.stolen - before.stolen);
        stolen / (used + stolen).max(f64::EPSILON)
    }
}

fn processor_time() -> ProcessorTime {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal
    let times: Vec<f64> = first.split_whitespace().skip(1).filter_map(|number| number.parse().ok()).collect();
    let time = |index: usize| times.get(index).copied().unwrap_or_default();
    ProcessorTime { used: [0, 1, 2, 5, 6].into_iter().map(time).sum(), stolen: time(7) }
}

async fn nodes(world: &World, missed: &mut Missed) {
    sizes(missed);

    // One that looks after others, or has before, has memory for them.
    wait::until("there are no other nodes", Duration::from_mins(3), async || {
        let all = Api::<ValkeyNode>::all(world.client.clone()).list_metadata(&ListParams::default()).await;
        let left = all.expect("should list").items.len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    operator::scale(&world.client, 0).await;
    operator::scale(&world.client, 2).await;
    let leader = operator::wait_for_other_leader(&world.client, "", Duration::from_secs(30)).await;
    println!("measuring {leader}, which was just started");
    let resident = mebibytes(footprint::resident_kib(world).await);
    println!("operator, resident, 0 nodes: {resident:.1} MiB (goal: 12)");
    missed.hold("MiB of the operator with 0 nodes", resident, 12.0);
    let (ours, bare) = start::compare(world, ROUNDS).await;
    let (ours, bare) = (ours.median(), bare.median());
    println!(
        "apply to Ready, median of {ROUNDS}: ValkeyNode {:.2} s, bare StatefulSet {:.2} s, ratio {:.2}, overhead {:.2} s (goal: 1 s at most)",
        ours.as_secs_f64(),
        bare.as_secs_f64(),
        ours.as_secs_f64() / bare.as_secs_f64(),
        ours.as_secs_f64() - bare.as_secs_f64(),
    );
    missed.hold("seconds that a ValkeyNode takes longer", ours.as_secs_f64() - bare.as_secs_f64(), 1.0);

    for number in 0..MANY {
        world.node(&format!("many{number}"), json!({})).await;
    }
    for number in 0..MANY {
        world.wait_ready(&format!("many{number}")).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let resident = mebibytes(footprint::resident_kib(world).await);
    println!("operator, resident, {MANY} nodes: {resident:.1} MiB (goal: 20)");
    missed.hold("MiB of the operator with many nodes", resident, 20.0);
    let calls = footprint::api_calls(world, Duration::from_mins(1)).await;
    let total: u64 = calls.values().sum();
    println!("API calls per minute at idle with {MANY} nodes: {total}");
    for (call, count) in calls {
        println!("  {call}: {count}");
    }
}

/// Apply to Ready, and the cost of growth.
async fn clusters_start(world: &World, missed: &mut Missed) {
    for (shards, rounds) in [(3, ROUNDS), (6, 1), (12, 1)] {
        let mut starts = Vec::new();
        for round in 0..rounds {
            starts.push(clusters::start(world, &format!("s{shards}r{round}"), shards, 1).await);
        }
        starts.sort_by_key(|start| start.ready);
        let middle = starts[starts.len() / 2];
        println!(
            "apply to Ready, {shards} shards with a replica each, median of {rounds}: {:.1} s, of it {:.0} s until the last server ran{}",
            middle.ready.as_secs_f64(),
            middle.pods.as_secs_f64(),
            if shards == 3 { " (goal: 8 s at most)" } else { "" },
        );
        if shards == 3 {
            missed.hold("seconds to Ready", middle.ready.as_secs_f64(), 8.0);
        }
    }
}

/// Moves that take a second or two vary by a fifth from one time to the next, by hand too: what is compared is the middle one of
/// some rounds, the operator's and those by hand in turn.
async fn slots_move(world: &World, missed: &mut Missed) {
    let (mut out, mut back) = (Vec::new(), Vec::new());
    for round in 0..MOVE_ROUNDS {
        let [one_out, one_back] = slots_move_once(world, round, missed).await;
        out.push(one_out);
        back.push(one_back);
    }
    for (what, rounds) in [("3 to 6", out), ("6 to 3", back)] {
        let ours = middle(rounds.iter().map(|round| round.ours));
        let by_hand = middle(rounds.iter().map(|round| round.by_hand));
        let ratio = ours.as_secs_f64() / by_hand.as_secs_f64();
        missed.hold(&format!("slots moved, {what}"), ratio, 1.3);
        println!(
            "slots moved, {what} shards, {MEGABYTES} MB, 500 writes/s, median of {MOVE_ROUNDS}: operator {:.2} s, by hand {:.2} s, ratio {ratio:.2} (goal: 1.3 at most)",
            ours.as_secs_f64(),
            by_hand.as_secs_f64(),
        );
    }
}

fn middle(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// The same moves by the operator and by hand.
#[derive(Clone, Copy)]
struct Moves {
    ours: Duration,
    by_hand: Duration,
}

/// Three shards to six and back with a gigabyte under load, and the same moves by hand: both begin with servers that never
/// held a key, because the first memory a server asks for takes its time.
async fn slots_move_once(world: &World, round: usize, missed: &mut Missed) -> [Moves; 2] {
    // What a cluster leaves behind is in the way of another one of its name.
    let (moves, hand) = (&format!("moves{round}"), &format!("hand{round}"));
    world.witnessed_cluster(moves, json!({"shards": 3, "replicas": 0})).await;
    scale::fill(world, moves, MEGABYTES).await;
    let witness = begin_witness(world, moves).await;
    let out = scale::by_the_operator(world, moves, 6).await;
    let back = scale::by_the_operator(world, moves, 3).await;
    tell_verdict(world, moves, witness, missed).await;
    clusters::remove(world, moves).await;

    world.witnessed_cluster(hand, json!({"shards": 6, "replicas": 0})).await;
    let by_hand = Box::pin(async {
        scale::by_hand(world, hand, 3).await;
        scale::fill(world, hand, MEGABYTES).await;
        let witness = begin_witness(world, hand).await;
        let out = scale::by_hand(world, hand, 6).await;
        let back = scale::by_hand(world, hand, 3).await;
        tell_verdict(world, hand, witness, missed).await;
        (out, back)
    });
    let (out_by_hand, back_by_hand) = operator::away(&world.client, by_hand).await;
    clusters::remove(world, hand).await;
    let both = [Moves { ours: out, by_hand: out_by_hand }, Moves { ours: back, by_hand: back_by_hand }];
    for (what, Moves { ours, by_hand }) in ["3 to 6", "6 to 3"].into_iter().zip(both) {
        println!(
            "  {what} shards: operator {:.2} s, by hand {:.2} s",
            ours.as_secs_f64(),
            by_hand.as_secs_f64()
        );
    }
    both
}

async fn begin_witness(world: &World, name: &str) -> Witness {
    let witness = Witness::start(Settings::new(world.witness_access(name).await)).await;
    witness.expect("the witness should start")
}

async fn tell_verdict(world: &World, name: &str, witness: Witness, missed: &mut Missed) {
    let verdict = witness.stop().await.verify(&world.witness_access(name).await).await;
    let verdict = verdict.expect("the witness should find its keys");
    println!(
        "  writes to {name} meanwhile: {} acknowledged, {} lost, {} failed, longest gap {} ms",
        verdict.tally().acknowledged,
        verdict.lost,
        verdict.tally().failed_operations(),
        verdict.report.longest_gap().length.as_millis(),
    );
    missed.unless(verdict.lost == 0, format!("{} writes to {name} were lost", verdict.lost));
    missed.unless(verdict.tally().failed_operations() == 0, format!("writes to {name} failed"));
}

async fn many_clusters(world: &World, missed: &mut Missed) {
    for number in 0..MANY_CLUSTERS {
        world.cluster(&format!("c{number}"), json!({"shards": 1, "replicas": 0})).await;
    }
    for number in 0..MANY_CLUSTERS {
        world.wait_cluster_ready(&format!("c{number}")).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let resident = mebibytes(footprint::resident_kib(world).await);
    println!("operator, resident, {MANY_CLUSTERS} clusters of one server: {resident:.1} MiB (goal: 25)");
    missed.hold("MiB of the operator with many clusters", resident, 25.0);
    idle_agents(world, missed).await;
}

/// What agents and the operator cost for a minute in which nothing happens.
async fn idle_agents(world: &World, missed: &mut Missed) {
    let mut agents = Vec::new();
    for number in 0..MANY_CLUSTERS {
        let name = format!("c{number}");
        world.wait_cluster_condition(&name, "SidecarsConnected", "True", "SidecarsHeard").await;
        for pod in world.cluster_pods(&name).await.iter().flatten() {
            agents.push(footprint::Process::of(pod, "valkey-sidecar"));
        }
    }
    let leader = footprint::leader(world).await;
    let times = || agents.iter().map(footprint::Process::processor_time).collect::<Vec<_>>();
    let (before, of_leader, since) = (times(), leader.processor_time(), jiff::Timestamp::now());
    let messages = operator::counted(&world.client, "valkey_operator_agent_messages", async {
        tokio::time::sleep(Duration::from_mins(1)).await;
    })
    .await;
    let of_leader = leader.processor_time().saturating_sub(of_leader);
    let shares = times().into_iter().zip(before).map(|(after, before)| percent(after.saturating_sub(before)));
    let busiest = shares.fold(0.0, f64::max);
    let largest = agents.iter().map(footprint::Process::resident_kib).max().map_or(0.0, mebibytes);
    let calls = world.local().audit_since(since).expect("should read the audit log");
    let ours = calls.iter().filter(|call| call.user.contains(operator::NAMESPACE));
    let writes = ours.filter(|call| call.resource != "leases").count();
    println!(
        "idle for a minute with {MANY_CLUSTERS} clusters: messages of agents {messages:?}, operator {:.2} % of a core, writes to the API {writes} (goal: 0)",
        percent(of_leader),
    );
    println!(
        "agents, the largest and the busiest of {}: {largest:.1} MiB (goal: 8), {busiest:.2} % of a core (goal: 0.2)",
        agents.len()
    );
    missed.hold("MiB of the largest agent", largest, 8.0);
    missed.hold("percent of a core of the busiest agent", busiest, 0.2);
    missed.unless(writes == 0, format!("{writes} writes to the API at idle"));
}

/// Of a minute.
fn percent(time: Duration) -> f64 {
    100.0 * time.as_secs_f64() / 60.0
}

fn mebibytes(kib: u64) -> f64 {
    f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / 1024.0
}

fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or(": unknown")
        .trim_start_matches([' ', '\t', ':'])
        .to_owned();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} × {model}, Linux {}", kernel.trim())
}

fn sizes(missed: &mut Missed) {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let program = |name: &str| target.join("x86_64-unknown-linux-gnu/release").join(name);
    let (operator, agent) = (program("valkey-operator"), program("valkey-agent"));
    let megabytes =
        |path: &Path| f64::from(u32::try_from(footprint::bytes(path) / 1000).unwrap_or(u32::MAX)) / 1000.0;
    let cache = devcluster::cache::folder().expect("there should be a cache");
    let programs = [(operator.as_path(), "/valkey-operator"), (agent.as_path(), "/valkey-agent")];
    let image = devcluster::images::from_programs(&cache, "valkey-operator:dev", &programs)
        .expect("the programs should be built: run `make build`");
    println!(
        "programs: operator {:.1} MB, agent {:.1} MB (goal: 12), image of both {:.1} MB (goal: 25)",
        megabytes(&operator),
        megabytes(&agent),
        megabytes(&image.path),
    );
    missed.hold("MB of the agent", megabytes(&agent), 12.0);
    missed.hold("MB of the image", megabytes(&image.path), 25.0);
}
