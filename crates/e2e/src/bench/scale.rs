//! How long slots take to move with their keys: by the operator, and by hand with the same commands in the same run.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use valkey::slots::{self, Owner};
use valkey::{Connection, SlotRange};

use crate::World;
use crate::access::Access;
use crate::clusters::Server;
use crate::witness::slot_of;

const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_mins(10);
/// Writes under way at once while data is loaded.
const AT_ONCE: usize = 16;
const VALUE: usize = 100_000;

/// Fills a cluster with so many megabytes.
pub async fn fill(world: &World, name: &str, megabytes: usize) {
    let primaries = Primaries::of(world, name).await;
    let value = "x".repeat(VALUE);
    let keys = (0..megabytes * 1_000_000 / VALUE).map(|number| format!("load:{number}"));
    futures::stream::iter(keys)
        .for_each_concurrent(AT_ONCE, |key| {
            let (primaries, value) = (&primaries, &value);
            async move {
                let connection = primaries.owner(slot_of(&key));
                connection.raw(&["SET", &key, value]).await.expect("should take the key");
            }
        })
        .await;
}

struct Primaries(Vec<(String, Vec<SlotRange>, Connection)>);

impl Primaries {
    async fn of(world: &World, name: &str) -> Self {
        let access: Access = world.witness_access(name).await;
        let credentials = access.credentials.expect("the witness should have a user");
        let mut primaries = Vec::new();
        for server in world.cluster_servers(name).await {
            let user = credentials.username.as_deref();
            let target = server.target.clone().with_credentials(user, credentials.password.clone());
            let connection = Connection::open(&target).await.expect("should let the witness in");
            let table = connection.cluster_nodes().await.expect("should answer");
            let myself = table.myself().expect("should know itself");
            if !myself.is_replica() {
                primaries.push((myself.id.clone(), myself.slots.clone(), connection));
            }
        }
        Self(primaries)
    }

    fn owner(&self, slot: u16) -> &Connection {
        let owns = |ranges: &[SlotRange]| ranges.iter().any(|range| range.contains(slot));
        let found = self.0.iter().find(|(_, ranges, _)| owns(ranges));
        &found.expect("every slot should have an owner").2
    }
}

/// The operator's way: from its first word of slots that are to be moved to the last one.
pub async fn by_the_operator(world: &World, name: &str, shards: u32) -> Duration {
    world.change_cluster(name, serde_json::json!({"shards": shards})).await;
    let moves = async || {
        let phase = world.cluster_status(name).await.orchestration.and_then(|known| known.phase);
        phase.is_some_and(|phase| phase.ends_with("slots are still to be moved"))
    };
    let begun = Instant::now();
    while !moves().await {
        assert!(begun.elapsed() < PATIENCE, "no slot is ever moved");
        tokio::time::sleep(LOOK).await;
    }
    let begun = Instant::now();
    // Between two waves something else may be said.
    let even = async || {
        let owning = world.cluster_status(name).await.shard_details;
        owning.iter().filter(|shard| !shard.slots.is_empty()).count() == shards as usize
    };
    while moves().await || !even().await {
        assert!(begun.elapsed() < PATIENCE, "slots are moved for ever");
        tokio::time::sleep(LOOK).await;
    }
    let took = begun.elapsed();
    world.wait_cluster_ready(name).await;
    took
}

/// By hand: the same moves, one wave after the other, as a patient person with a table would do it.
pub async fn by_hand(world: &World, name: &str, shards: u32) -> Duration {
    let servers = world.cluster_servers(name).await;
    let primaries = primaries_by_shard(&servers).await;
    let owners: Vec<Owner> = primaries
        .iter()
        .map(|(shard, id, ranges, _)| Owner { id: id.clone(), ranges: ranges.clone(), keep: *shard < shards })
        .collect();
    let connection = |id: &str| {
        let found = primaries.iter().find(|(_, known, ..)| known == id);
        &found.expect("should be a primary").3
    };
    let begun = Instant::now();
    for wave in slots::waves(slots::balance(&owners)) {
        for one in &wave {
            let job = [(one.ranges.clone(), one.to.clone())];
            connection(&one.from).cluster_migrate_slots(&job).await.expect("should begin");
        }
        for one in &wave {
            let runs = async || {
                let all = connection(&one.from).cluster_slot_migrations().await.expect("should answer");
                all.iter().any(|one| one.state.is_running())
            };
            while runs().await {
                assert!(begun.elapsed() < PATIENCE, "slots are moved for ever");
                tokio::time::sleep(LOOK).await;
            }
        }
    }
    begun.elapsed()
}

async fn primaries_by_shard(servers: &[Server]) -> Vec<(u32, String, Vec<SlotRange>, Connection)> {
    let mut primaries = Vec::new();
    for server in servers {
        let connection = server.open().await.expect("should answer");
        let table = connection.cluster_nodes().await.expect("should answer");
        let myself = table.myself().expect("should know itself");
        if myself.is_replica() {
            continue;
        }
        let shard = server.pod.metadata.labels.as_ref().and_then(|all| all.get(api::keys::SHARD_INDEX));
        let shard = shard.and_then(|shard| shard.parse().ok()).expect("should say which shard it is of");
        primaries.push((shard, myself.id.clone(), myself.slots.clone(), connection));
    }
    primaries
}
