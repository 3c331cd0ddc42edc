//! No table of nodes can end the program, name a slot that is none, or change when it is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use valkey::cluster::ClusterNodes;
use valkey::slots::SLOT_COUNT;

fuzz_target!(|data: &[u8]| {
    let table = ClusterNodes::parse(&String::from_utf8_lossy(data));
    for node in &table.nodes {
        assert!(node.slots.iter().all(|range| range.start() <= range.end() && range.end() < SLOT_COUNT));
        let again = ClusterNodes::parse(&node.to_string());
        assert_eq!(again.nodes.as_slice(), std::slice::from_ref(node));
    }
});
