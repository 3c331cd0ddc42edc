//! Faults of a server and of its disk, once each; the campaign repeats them.

use std::time::Duration;

use e2e::faults::{NodeFault, befall, victim};
use e2e::world;

#[tokio::test]
async fn a_server_survives_being_killed_frozen_and_out_of_disk() {
    world::run("faults", async |world| {
        victim(world, "victim").await;
        for fault in [NodeFault::ServerKilled, NodeFault::ServerFrozen, NodeFault::DiskFull] {
            let (verdict, back) = befall(world, "victim", fault).await;
            verdict.assert_nothing_lost();
            eprintln!("{fault:?}: ready again {back:?} after it was mended");
            assert!(back < Duration::from_secs(45), "{fault:?}: {back:?}");
        }
    })
    .await;
}
