//! What is too long for the tests: the operator dies after every single write of a creation, for each workload type, and
//! after every write and command in the life of a cluster; every fault befalls nodes and clusters again and again, and
//! every change is made again and again, under the witness.
//! Prints a table; ends with an error if a row failed.
#![allow(clippy::panic, reason = "a campaign that cannot go on must end")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::ValkeyNode;
use e2e::changes::{
    self, Change, EXCUSED, NOTICED, NOTICED_IN_A_HURRY, ROLLED_WITHIN, SCALED_WITHIN, WAITED,
};
use e2e::crash::End;
use e2e::failovers::{self, Shape};
use e2e::faults::{self, Fault, NodeFault};
use e2e::lives::{self, Chapter, away};
use e2e::witness::Verdict;
use e2e::{World, creation, operator};
use serde_json::{Value, json};

/// More writes than any creation takes: a run that gets here never settles.
const TOO_MANY: usize = 60;
const TOO_MANY_FOR_A_CLUSTER: usize = 400;
/// How often every change of a cluster is made.
const CHANGED: usize = 5;
/// How often a primary of each kind of cluster is killed, with agents that let a replica take over and without.
const KILLED: usize = 20;
const KILLED_FOR_COMPARISON: usize = 4;
/// How often a cluster of an older release is scaled.
const OLDER_SCALED: usize = 2;

#[tokio::main]
async fn main() {
    // One of these parts alone; all of them if nothing is said.
    let only = std::env::args().nth(1);
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let world = World::open("campaign").await;
    if wanted("crashes") {
        operator::away(&world.client, every_crash(&world)).await;
    }
    if wanted("faults") {
        every_fault(&world).await;
    }
    if wanted("cluster-changes") {
        Box::pin(every_change()).await;
    }
    if wanted("cluster-faults") {
        Box::pin(every_cluster_fault()).await;
    }
    if wanted("failovers") {
        Box::pin(every_failover()).await;
    }
    // Half of it alone: it is the longest part.
    let half = only.as_deref().and_then(|only| only.strip_prefix("cluster-crashes-"));
    if wanted("cluster-crashes") || half.is_some() {
        let crashes = Box::pin(every_crash_of_a_cluster(&world, half.unwrap_or_default()));
        operator::away(&world.client, crashes).await;
    }
    world.close().await;
}

/// Replicas that go three seconds after the pod of a primary was deleted: a change on purpose, and a fault.
const HURRY: &str = "no-replicas-after-a-lost-pod";

/// Every change of a cluster on purpose, again and again: nothing lost, nothing failed, hardly noticed.
async fn every_change() {
    println!(
        "\n| change | times | acknowledged | lost | failed | longest gap | longest way |\n| --- | --- | --- | --- | --- | --- | --- |"
    );
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for round in 0..CHANGED {
        let world = World::open("campaign-changes").await;
        let spec = json!({"shards": 3, "replicas": 1, "image": "valkey/valkey:8.1"});
        world.witnessed_cluster("calm", spec).await;
        // Key by key, because these servers know no other way: it takes its time.
        let scales: &[Change] = if round < OLDER_SCALED { &[Change::ScaleOut, Change::ScaleIn] } else { &[] };
        for change in scales {
            eprintln!("round {round}: {change} of the older release");
            let (verdict, took) = change.witnessed(&world, "calm").await;
            rows.entry(format!("{change}-older")).or_default().add(&verdict, took);
        }
        for change in Change::CAMPAIGN {
            eprintln!("round {round}: {change}");
            // The nodes that go are those that lead.
            if change == Change::NoReplicas {
                changes::second_nodes_lead(&world, "calm").await;
            }
            let (verdict, took) = change.witnessed(&world, "calm").await;
            rows.entry(change.to_string()).or_default().add(&verdict, took);
        }
        eprintln!("round {round}: {HURRY}");
        changes::second_nodes_lead(&world, "calm").await;
        let (verdict, took) = changes::no_replicas_in_a_hurry(&world, "calm").await;
        rows.entry(HURRY.to_owned()).or_default().add(&verdict, took);
        world.close().await;
    }
    for (change, row) in &rows {
        println!("| {change} | {row} |");
    }
    let on_purpose = rows.iter().filter(|(change, _)| *change != HURRY);
    let noticed = on_purpose.filter(|(_, row)| {
        row.failed > 0 || row.noticed > NOTICED || row.waited > WAITED || row.gap > NOTICED + EXCUSED
    });
    let noticed: Vec<_> = noticed.map(|(change, _)| change).collect();
    assert!(noticed.is_empty(), "noticed: {noticed:?}");
    let hurried = rows.get(HURRY).map(|row| row.noticed).unwrap_or_default();
    assert!(hurried <= NOTICED_IN_A_HURRY, "{HURRY}: no write for {hurried:?}");
    let [out_within, in_within] = SCALED_WITHIN;
    for (change, within) in [
        (Change::Restart, ROLLED_WITHIN),
        (Change::Directive, ROLLED_WITHIN),
        (Change::ScaleOut, out_within),
        (Change::ScaleIn, in_within),
    ] {
        let took = rows.get(&change.to_string()).map(|row| row.took).unwrap_or_default();
        assert!(took <= within, "{change}: took {took:?}");
    }
}

/// Every fault of a cluster's primaries, again and again: nothing lost.
async fn every_cluster_fault() {
    println!(
        "\n| fault of a cluster | times | acknowledged | lost | failed | longest gap | longest way |\n| --- | --- | --- | --- | --- | --- | --- |"
    );
    let volatile = json!({"shards": 3, "replicas": 1});
    let kept = json!({"shards": 3, "replicas": 1, "persistence": {"size": "64Mi"}});
    let one = Victims::Primaries(1);
    let mut too_long = Vec::new();
    for (what, fault, spec, victims, times, within) in [
        ("server of a primary killed", Fault::ServerKilled, &volatile, one, 20, away::ONE_PRIMARY),
        ("pod of a primary deleted", Fault::PodDeleted, &volatile, one, 5, away::ONE_PRIMARY),
        (
            "most primaries killed",
            Fault::ServerKilled,
            &volatile,
            Victims::Primaries(2),
            5,
            away::MOST_PRIMARIES,
        ),
        (
            "pods of all primaries deleted",
            Fault::PodDeleted,
            &volatile,
            Victims::Primaries(3),
            3,
            away::MOST_PRIMARIES,
        ),
        ("all pods deleted, with volumes", Fault::PodDeleted, &kept, Victims::All, 5, away::ALL_PODS),
        (
            "machine of a primary lost",
            Fault::MachineLost,
            &volatile,
            Victims::OneMachine,
            3,
            away::ONE_MACHINE,
        ),
        ("most primaries hang", Fault::ServerHung, &volatile, Victims::Primaries(2), 2, away::HUNG),
    ] {
        let mut row = Row::default();
        for time in 1..=times {
            eprintln!("{what}: {time} of {times}");
            let world = World::open("campaign-cluster").await;
            world.witnessed_cluster("hit", spec.clone()).await;
            let mut void = false;
            let (verdict, took) = match victims {
                Victims::OneMachine => Box::pin(lives::loses_a_machine(&world, "hit")).await,
                Victims::All => {
                    let (verdict, took, started) = Box::pin(lives::loses_all_pods(&world, "hit")).await;
                    // Where Kubernetes alone takes too long to start servers, nothing was measured but the machine.
                    void = started > away::STARTED;
                    (verdict, took)
                }
                Victims::Primaries(count) => {
                    let primaries = world.primaries("hit").await;
                    Box::pin(lives::befalls(&world, "hit", fault, &primaries[..count])).await
                }
            };
            row.add(&verdict, took);
            let gap = verdict.report.longest_gap().length;
            too_long.extend((gap > within && !void).then(|| format!("{what}: no write for {gap:?}")));
            world.close().await;
        }
        println!("| {what} | {row} |");
    }
    assert!(too_long.is_empty(), "longer than promised: {too_long:#?}");
}

/// Primaries that are killed, with agents that let replicas take over and with agents that do not.
async fn every_failover() {
    println!(
        "\n| primary killed, a copy each | by agents | times | lost | stall, median | longest |\n| --- | --- | --- | --- | --- | --- |"
    );
    let mut too_long = Vec::new();
    for shape in Shape::ALL {
        for (by_agents, times) in [(true, KILLED), (false, KILLED_FOR_COMPARISON)] {
            let stalls = failovers::stalls(shape, by_agents, times).await;
            let (median, longest) = (stalls[stalls.len() / 2], stalls[stalls.len() - 1]);
            let answer = if by_agents { "yes" } else { "no" };
            println!(
                "| {shape} | {answer} | {times} | 0 | {:.2} s | {:.2} s |",
                median.as_secs_f64(),
                longest.as_secs_f64()
            );
            let is_too_long = median > failovers::MEDIAN || longest > failovers::LONGEST;
            too_long.extend((by_agents && is_too_long).then(|| format!("{shape}: {stalls:?}")));
        }
    }
    assert!(too_long.is_empty(), "longer than promised: {too_long:#?}");
}

/// Whom a fault befalls.
#[derive(Clone, Copy)]
enum Victims {
    Primaries(usize),
    All,
    OneMachine,
}

/// The operator dies after every deed of each part of a cluster's life, in turn.
async fn every_crash_of_a_cluster(world: &World, part: &str) {
    println!(
        "\n| part of a cluster's life | crash points | converged | seconds |\n| --- | --- | --- | --- |"
    );
    if part != "life" {
        Box::pin(every_point_of_a_creation(world)).await;
    }
    if part != "creation" {
        Box::pin(every_point_of_a_life(world)).await;
    }
}

async fn every_point_of_a_creation(world: &World) {
    let mut points = Points::of(Chapter::Creation);
    for point in 1..TOO_MANY_FOR_A_CLUSTER {
        let name = format!("creation{point}");
        eprintln!("{name}: the operator dies after deed {point}");
        let begun = Instant::now();
        let end = lives::with_one_crash(world, &name, Chapter::Creation, point).await;
        points.add(end, begun.elapsed());
        e2e::bench::clusters::remove(world, &name).await;
        if points.done() {
            return;
        }
    }
    panic!("the operator acts without end")
}

/// One cluster lives through the same chapters again and again, and each time the operator dies one deed later. How many deeds
/// there are differs a little from time to time: a chapter is done when its operator lived through it twice in a row.
async fn every_point_of_a_life(world: &World) {
    let mut chapters = [Chapter::ScaleOut, Chapter::ScaleIn, Chapter::Roll].map(Points::of);
    lives::create(world, "life").await;
    for point in 1..TOO_MANY_FOR_A_CLUSTER {
        // What was scaled out is scaled in again.
        let scales = chapters[..2].iter().any(|one| !one.done());
        for one in &mut chapters {
            let goes_on = if one.chapter == Chapter::Roll { !one.done() } else { scales };
            if !goes_on {
                continue;
            }
            eprintln!("{}: the operator dies after deed {point}", one.chapter);
            let begun = Instant::now();
            let crash = lives::with_one_crash(world, "life", one.chapter, point);
            let end = Box::pin(lives::witnessed(world, "life", crash)).await;
            one.add(end, begun.elapsed());
        }
        if chapters.iter().all(Points::done) {
            return;
        }
    }
    panic!("the operator acts without end")
}

/// Points of a chapter at which an operator died.
struct Points {
    chapter: Chapter,
    died: usize,
    lived: usize,
    took: Duration,
}

impl Points {
    fn of(chapter: Chapter) -> Self {
        Self { chapter, died: 0, lived: 0, took: Duration::ZERO }
    }

    fn done(&self) -> bool {
        self.lived >= 2
    }

    fn add(&mut self, end: End, took: Duration) {
        let was_done = self.done();
        self.took += took;
        match end {
            End::Crashed => (self.died, self.lived) = (self.died + 1, 0),
            End::Stopped => self.lived += 1,
        }
        if self.done() && !was_done {
            println!("| {} | {} | {} | {} |", self.chapter, self.died, self.died, self.took.as_secs());
        }
    }
}

/// What a fault or a change cost, over all repetitions.
#[derive(Default)]
struct Row {
    times: u32,
    acknowledged: u64,
    failed: u64,
    gap: Duration,
    noticed: Duration,
    waited: Duration,
    took: Duration,
}

impl Row {
    /// Ends the campaign if anything was lost.
    fn add(&mut self, verdict: &Verdict, took: Duration) {
        verdict.assert_nothing_lost();
        self.times += 1;
        self.acknowledged += verdict.tally().acknowledged;
        self.failed += verdict.tally().failed_operations();
        self.gap = self.gap.max(verdict.report.longest_gap().length);
        self.noticed = self.noticed.max(verdict.report.noticed());
        self.waited = self.waited.max(verdict.report.waited());
        self.took = self.took.max(took);
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (gap, took) = (self.gap.as_secs_f64(), self.took.as_secs_f64());
        write!(f, "{} | {} | 0 | {} | {gap:.2} s | {took:.1} s", self.times, self.acknowledged, self.failed)
    }
}

/// The operator dies after every write of a creation, for each workload type.
async fn every_crash(world: &World) {
    let rows = [
        ("StatefulSet", json!({})),
        (
            "StatefulSet with volume",
            json!({"persistence": {"size": "32Mi"}, "config": {"maxmemory": "64mb"}}),
        ),
        ("Deployment", json!({"workloadType": "Deployment"})),
        ("Pod with volume", json!({"workloadType": "Pod", "persistence": {"size": "32Mi"}})),
    ];
    println!("| creation of | crash points | converged | seconds |\n| --- | --- | --- | --- |");
    for (number, (name, spec)) in rows.into_iter().enumerate() {
        let begun = Instant::now();
        let points = every_point(world, number, spec).await;
        println!("| {name} | {points} | {points} | {} |", begun.elapsed().as_secs());
    }
}

/// Nothing that was acknowledged may be lost, and the node must come back.
async fn every_fault(world: &World) {
    println!(
        "\n| fault | times | acknowledged | lost | longest gap | longest way back |\n| --- | --- | --- | --- | --- | --- |"
    );
    for (fault, times) in NodeFault::CAMPAIGN {
        let (mut acknowledged, mut gap, mut back) = (0, Duration::ZERO, Duration::ZERO);
        for time in 1..=times {
            // A pod of its own each time: Kubernetes waits longer with every crash of the same one.
            let name = format!("{fault:?}{time}").to_lowercase();
            faults::victim(world, &name).await;
            let (verdict, took) = faults::befall(world, &name, fault).await;
            verdict.assert_nothing_lost();
            world.delete::<ValkeyNode>(&name).await;
            acknowledged += verdict.acknowledged;
            gap = gap.max(verdict.longest_gap);
            back = back.max(took);
        }
        println!(
            "| {fault:?} | {times} | {acknowledged} | 0 | {:.1} s | {:.1} s |",
            gap.as_secs_f64(),
            back.as_secs_f64()
        );
    }
}

/// Crash after write 1, 2, 3, … until the creation is over before the operator dies.
async fn every_point(world: &World, row: usize, spec: Value) -> usize {
    for point in 1..TOO_MANY {
        let name = format!("r{row}p{point}");
        eprintln!("{name}: the operator dies after write {point}");
        if creation::with_a_crash(world, &name, spec.clone(), point).await == End::Stopped {
            return point - 1;
        }
    }
    panic!("the operator writes without end")
}
