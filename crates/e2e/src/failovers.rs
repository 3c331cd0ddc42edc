//! How long writes stall when the server of a primary is killed: with agents that let a replica take over, and without.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::World;
use crate::faults::Fault;
use crate::lives::befalls;

/// In the middle of many kills.
pub const MEDIAN: Duration = Duration::from_millis(500);
/// In hardly any of them.
pub const LONGEST: Duration = Duration::from_millis(1500);
/// A container that died often is started later and later by its machine: then there are other clusters.
const KILLS_OF_A_CLUSTER: usize = 2;
/// A cluster that was just made, or just healed, is busy, and so is the machine under it; agents look once a second.
const REST: Duration = Duration::from_secs(3);

/// A cluster of so many shards with a copy each, whose servers wait for each other for ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Of which one loses its primary: among fewer than three, nobody can be voted in.
    pub shards: u32,
    /// Data is on volumes, and comes back with its server.
    pub kept: bool,
}

impl Shape {
    /// Those that differ in how somebody takes over.
    pub const ALL: [Self; 6] = [
        Self { shards: 3, kept: false },
        Self { shards: 3, kept: true },
        Self { shards: 1, kept: false },
        Self { shards: 1, kept: true },
        Self { shards: 2, kept: false },
        Self { shards: 2, kept: true },
    ];

    /// Its spec; agents that may do nothing look and tell all the same.
    pub fn spec(self, by_agents: bool) -> Value {
        let mut spec = json!({"shards": self.shards, "replicas": 1});
        if self.kept {
            spec["persistence"] = json!({"size": "64Mi"});
        }
        if !by_agents {
            let off = json!({"name": "valkey-sidecar", "env": [{"name": "FAILOVER", "value": "off"}]});
            spec["podTemplate"] = json!({"spec": {"initContainers": [off]}});
        }
        spec
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = if self.kept { "on volumes" } else { "in pods" };
        write!(f, "{} shards, data {data}", self.shards)
    }
}

/// Kills the primary of the first shard under the witness, as often as asked, and waits each time until the cluster is whole. Returns
/// for how long no write was acknowledged; whatever is lost ends it.
pub async fn stalls_of(world: &World, name: &str, kills: usize) -> Vec<Duration> {
    let mut stalls = Vec::new();
    for _ in 0..kills {
        world.wait_cluster_condition(name, "SidecarsConnected", "True", "SidecarsHeard").await;
        tokio::time::sleep(REST).await;
        let primaries = world.primaries(name).await;
        let (verdict, _) = Box::pin(befalls(world, name, Fault::ServerKilled, &primaries[..1])).await;
        verdict.assert_nothing_lost();
        let stall = verdict.report.longest_gap().length;
        if stall > MEDIAN {
            agents_say(world, name).await;
        }
        stalls.push(stall);
    }
    stalls
}

/// What the agents of the first shard decided, and when.
async fn agents_say(world: &World, name: &str) {
    for pod in world.cluster_pods(name).await.into_iter().take(1).flatten() {
        let pod = pod.metadata.name.unwrap_or_default();
        let log = world.kubectl(&["logs", "--timestamps", "--container", "valkey-sidecar", &pod]).await;
        eprintln!("{pod}:\n{log}");
    }
}

/// The same in clusters that are made for it.
pub async fn stalls(shape: Shape, by_agents: bool, times: usize) -> Vec<Duration> {
    let mut stalls = Vec::new();
    while stalls.len() < times {
        eprintln!("{shape}, by agents: {by_agents}: {} of {times}", stalls.len());
        let world = World::open("failovers").await;
        world.witnessed_cluster("hit", shape.spec(by_agents)).await;
        let kills = KILLS_OF_A_CLUSTER.min(times - stalls.len());
        stalls.extend(stalls_of(&world, "hit", kills).await);
        world.close().await;
    }
    stalls.sort_unstable();
    stalls
}
