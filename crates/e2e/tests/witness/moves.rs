//! What the witness sees when slots move, and what the invariants say of a move half way.

use e2e::invariants;
use e2e::wait;
use e2e::witness::{Verdict, Witness};
use valkey::Connection;
use valkey::client::Value;
use valkey::testing::{Release, Server};

use crate::PATIENCE;
use crate::loopback::{Loopback, say};
use crate::measures::{acknowledged, settings};

/// Slots of the first shard; some of the witness's keys are among them.
const SLOTS: std::ops::RangeInclusive<u16> = 0..=299;
/// Half of the first shard.
const MANY_SLOTS: std::ops::RangeInclusive<u16> = 0..=2730;

fn redirects_only(verdict: &Verdict) {
    verdict.assert_nothing_lost();
    verdict.report.assert_no_failed_operations();
    let tally = verdict.tally();
    assert!(tally.retries.is_empty(), "a move is told by redirections alone: {verdict}");
    assert!(tally.moved > 0, "nobody was sent to the new owner: {verdict}");
}

#[tokio::test]
async fn slots_that_move_key_by_key_cost_redirections_only() {
    let cluster = Loopback::form(Release::V8_1, 3, 0).await;
    let witness = Witness::start(settings(cluster.access())).await.unwrap();
    acknowledged(&witness, 600).await;
    let (from, to) = (&cluster.shards[0][0], &cluster.shards[1][0]);
    let (source, destination) = (cluster.open(from).await, cluster.open(to).await);
    let ids = (cluster.id(from).await, cluster.id(to).await);
    for slot in SLOTS.map(|slot| slot.to_string()) {
        say(&destination, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids.0]).await;
        say(&source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids.1]).await;
    }
    let open = invariants::no_open_slots(&cluster.observe().await);
    assert_eq!(open.len(), 2 * SLOTS.count(), "both ends of each slot are open");
    for slot in SLOTS {
        move_keys(&source, to, slot).await;
    }
    // Keys that are at the new owner already, in slots that are not.
    wait::until("somebody is told to ask", PATIENCE, async || {
        let asked = witness.progress().tally.asked;
        if asked > 0 { Ok(()) } else { Err(asked) }
    })
    .await;
    for slot in SLOTS.map(|slot| slot.to_string()) {
        for connection in [&destination, &source] {
            say(connection, &["CLUSTER", "SETSLOT", &slot, "NODE", &ids.1]).await;
        }
    }
    cluster.wait_until_whole().await;
    acknowledged(&witness, 900).await;
    let verdict = witness.stop().await.verify(&cluster.access()).await.unwrap();
    eprintln!("moved key by key:\n{verdict}");
    redirects_only(&verdict);
    assert!(verdict.tally().asked > 0, "{verdict}");
}

async fn move_keys(source: &Connection, to: &Server, slot: u16) {
    let keys = source.raw(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"]).await.unwrap();
    let Value::Array(keys) = keys else { panic!("should be a list of keys: {keys:?}") };
    for key in keys {
        let Value::BulkString(key) = key else { panic!("should be a key: {key:?}") };
        let (key, port) = (String::from_utf8(key).unwrap(), to.port().to_string());
        let words = ["MIGRATE", "127.0.0.1", &port, &key, "0", "5000", "AUTH", crate::loopback::PASSWORD];
        say(source, &words).await;
    }
}

#[tokio::test]
async fn slots_that_move_at_once_cost_redirections_only() {
    let cluster = Loopback::form(Release::V9_1, 3, 0).await;
    let witness = Witness::start(settings(cluster.access())).await.unwrap();
    acknowledged(&witness, 600).await;
    let (source, to) = (cluster.open(&cluster.shards[0][0]).await, &cluster.shards[1][0]);
    let (start, end, id) =
        (MANY_SLOTS.start().to_string(), MANY_SLOTS.end().to_string(), cluster.id(to).await);
    say(&source, &["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &start, &end, "NODE", &id]).await;
    wait::until("the slots are there", PATIENCE, async || {
        let table = cluster.open(to).await.cluster_nodes().await.unwrap();
        let owns = table.slots_of_myself().iter().any(|range| range.contains(*MANY_SLOTS.start()));
        if owns { Ok(()) } else { Err(table.myself().map(ToString::to_string)) }
    })
    .await;
    cluster.wait_until_whole().await;
    acknowledged(&witness, 900).await;
    let verdict = witness.stop().await.verify(&cluster.access()).await.unwrap();
    eprintln!("moved at once:\n{verdict}");
    redirects_only(&verdict);
}
