//! The operator dies between two writes. Here a sample of the points; the campaign takes every one.

use e2e::crash::End;
use e2e::lives::Chapter;
use e2e::{creation, lives, operator, world};
use serde_json::json;

#[tokio::test]
async fn a_crash_after_a_write_converges() {
    world::run("crash", async |world| {
        operator::away(&world.client, async {
            for die_after in [1, 3, 5] {
                let name = format!("c{die_after}");
                let spec = json!({"persistence": {"size": "32Mi"}});
                let end = creation::with_a_crash(world, &name, spec, die_after).await;
                assert_eq!(end, End::Crashed, "it should write at least {die_after} times");
            }
        })
        .await;
    })
    .await;
}

/// A cluster whose operators die after every third write or command gets through its whole life.
#[tokio::test]
async fn a_cluster_lives_on_while_operators_die() {
    world::run("crash-cluster", async |world| {
        operator::away(&world.client, async {
            for chapter in Chapter::ALL {
                let part = lives::with_crash_after_crash(world, "tough", chapter, 3);
                let died = match chapter {
                    Chapter::Creation => part.await,
                    _ => Box::pin(lives::witnessed(world, "tough", part)).await,
                };
                eprintln!("{chapter}: {died} operators died");
                assert!(died > 3, "{chapter}: only {died} operators died");
            }
        })
        .await;
    })
    .await;
}

/// More nodes than workers: a start that waits for its caches inside the workers would wait forever.
#[tokio::test]
async fn an_operator_that_starts_among_many_nodes_looks_at_all_of_them() {
    world::run("many", async |world| {
        operator::away(&world.client, async {
            for number in 0..40 {
                world
                    .node(&format!("n{number}"), json!({"nodeSelector": {"example.com/no-such": "machine"}}))
                    .await;
            }
        })
        .await;
        for number in 0..40 {
            world.wait_condition(&format!("n{number}"), "Ready", "False", "Unschedulable").await;
        }
    })
    .await;
}
