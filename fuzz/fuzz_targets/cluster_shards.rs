//! No reply to CLUSTER SHARDS can end the program, name a slot that is none, or a node without a name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use valkey::cluster::Shard;
use valkey::slots::SLOT_COUNT;

fuzz_target!(|data: &[u8]| {
    let Ok(reply) = redis::parse_redis_value(data) else { return };
    for shard in Shard::read(&reply).into_iter().flatten() {
        assert!(shard.slots.iter().all(|range| range.start() <= range.end() && range.end() < SLOT_COUNT));
        assert!(shard.nodes.iter().all(|node| !node.id.is_empty()));
    }
});
