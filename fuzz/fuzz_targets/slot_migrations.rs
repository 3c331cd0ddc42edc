//! No reply to CLUSTER GETSLOTMIGRATIONS can end the program or name a slot that is none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use valkey::cluster::SlotMigration;
use valkey::slots::SLOT_COUNT;

fuzz_target!(|data: &[u8]| {
    let Ok(reply) = redis::parse_redis_value(data) else { return };
    for migration in SlotMigration::read(&reply).into_iter().flatten() {
        assert!(
            migration.ranges.iter().all(|range| range.start() <= range.end() && range.end() < SLOT_COUNT)
        );
    }
});
