//! The operator dies between two writes. Here a sample of the points; the campaign takes every one.

use e2e::crash::End;
use e2e::{creation, operator, world};
use serde_json::json;

#[tokio::test]
async fn a_crash_after_a_write_converges() {
    world::run("crash", async |world| {
        operator::scale(&world.client, 0).await;
        for die_after in [1, 3, 5] {
            let name = format!("c{die_after}");
            let spec = json!({"persistence": {"size": "32Mi"}});
            let end = creation::with_a_crash(world, &name, spec, die_after).await;
            assert_eq!(end, End::Crashed, "it should write at least {die_after} times");
        }
        operator::scale(&world.client, 2).await;
    })
    .await;
}
