//! What is too long for the tests: the operator dies after every single write of a creation, for each workload type;
//! and every fault befalls a node again and again, under the witness.
//! Prints a table; ends with an error if a row failed.
#![allow(clippy::panic, reason = "a campaign that cannot go on must end")]

use std::time::{Duration, Instant};

use api::ValkeyNode;
use e2e::crash::End;
use e2e::faults::{self, NodeFault};
use e2e::{World, creation, operator};
use serde_json::{Value, json};

/// More writes than any creation takes: a run that gets here never settles.
const TOO_MANY: usize = 60;

#[tokio::main]
async fn main() {
    // `crashes` or `faults` alone; both if nothing is said.
    let only = std::env::args().nth(1);
    let world = World::open("campaign").await;
    if only.as_deref() != Some("faults") {
        operator::away(&world.client, every_crash(&world)).await;
    }
    if only.as_deref() != Some("crashes") {
        every_fault(&world).await;
    }
    world.close().await;
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
