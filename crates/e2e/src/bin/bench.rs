//! Prints what the operator costs and how quick it is, with the machine it was measured on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::World;
use e2e::bench::{footprint, start};
use serde_json::json;

const ROUNDS: usize = 5;
const MANY: usize = 50;

#[tokio::main]
async fn main() {
    let world = World::open("bench").await;
    println!("machine: {}", machine());
    sizes();

    println!(
        "operator, resident, 0 nodes: {:.1} MiB (goal: 12)",
        mebibytes(footprint::resident_kib(&world).await)
    );
    let (ours, bare) = start::compare(&world, ROUNDS).await;
    let (ours, bare) = (ours.median(), bare.median());
    println!(
        "apply to Ready, median of {ROUNDS}: ValkeyNode {:.2} s, bare StatefulSet {:.2} s, ratio {:.2}, overhead {:.2} s (goal: 1 s at most)",
        ours.as_secs_f64(),
        bare.as_secs_f64(),
        ours.as_secs_f64() / bare.as_secs_f64(),
        ours.as_secs_f64() - bare.as_secs_f64(),
    );

    for number in 0..MANY {
        world.node(&format!("many{number}"), json!({})).await;
    }
    for number in 0..MANY {
        world.wait_ready(&format!("many{number}")).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    println!(
        "operator, resident, {MANY} nodes: {:.1} MiB (goal: 20)",
        mebibytes(footprint::resident_kib(&world).await)
    );
    let calls = footprint::api_calls(&world, Duration::from_mins(1)).await;
    let total: u64 = calls.values().sum();
    println!("API calls per minute at idle with {MANY} nodes: {total}");
    for (call, count) in calls {
        println!("  {call}: {count}");
    }
    world.close().await;
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

fn sizes() {
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
        "programs: operator {:.1} MB, agent {:.1} MB (goal: 6), image of both {:.1} MB (goal: 25)",
        megabytes(&operator),
        megabytes(&agent),
        megabytes(&image.path),
    );
}
