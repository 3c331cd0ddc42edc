//! What the witness sees when a server hands over, stands still, or forgets.

use std::time::Duration;

use e2e::access::Access;
use e2e::wait;
use e2e::witness::{Finding, Settings, Trouble, Witness};
use valkey::Connection;
use valkey::testing::{Release, Server};

use crate::PATIENCE;
use crate::loopback::{Loopback, address, say};

/// Faster than usual, so that these tests stay short.
pub(crate) fn settings(access: Access) -> Settings {
    Settings { rate: 900, keys: 300, ..Settings::new(access) }
}

/// Waits until the witness has seen so many more acknowledged writes.
pub(crate) async fn acknowledged(witness: &Witness, more: u64) {
    let before = witness.progress().tally.acknowledged;
    wait::until("writes are acknowledged", PATIENCE, async || {
        let now = witness.progress().tally.acknowledged;
        if now >= before + more { Ok(()) } else { Err(now) }
    })
    .await;
}

async fn took_over(replica: &Connection) {
    wait::until("the replica took over", PATIENCE, async || {
        let table = replica.cluster_nodes().await.unwrap();
        let myself = table.myself().unwrap();
        if myself.is_primary() && !myself.slots.is_empty() { Ok(()) } else { Err(myself.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_planned_failover_loses_and_fails_nothing() {
    let cluster = Loopback::form(Release::V9_1, 3, 1).await;
    let witness = Witness::start(settings(cluster.access())).await.unwrap();
    let replica = cluster.open(&cluster.shards[1][1]).await;
    say(&replica, &["CLUSTER", "FAILOVER"]).await;
    took_over(&replica).await;
    acknowledged(&witness, 900).await;
    let verdict = witness.stop().await.verify(&cluster.access()).await.unwrap();
    eprintln!("planned failover:\n{verdict}");
    verdict.assert_nothing_lost();
    verdict.report.assert_no_failed_operations();
    assert_eq!(verdict.report.shards.len(), 3);
    assert!(verdict.tally().moved > 0, "nobody was sent to the new primary");
    assert!(verdict.report.shards.iter().all(|shard| shard.tally.acknowledged > 100), "{verdict}");
    cluster.wait_until_whole().await;
}

#[tokio::test]
async fn a_primary_that_comes_back_empty_has_lost_writes() {
    let mut cluster = Loopback::form(Release::V9_1, 3, 0).await;
    let witness = Witness::start(settings(cluster.access())).await.unwrap();
    // Every key has something to lose.
    acknowledged(&witness, 600).await;
    cluster.kill_and_bring_back_empty(2).await;
    // Later writes cover every key of the shard; what was there before is still missed.
    acknowledged(&witness, 1800).await;
    let report = witness.stop().await;
    let tallies: Vec<usize> = report.shards.iter().map(|shard| shard.tally.findings.len()).collect();
    let verdict = report.verify(&cluster.access()).await.unwrap();
    eprintln!("empty primary:\n{verdict}");
    assert!(verdict.lost >= 100, "each of the shard's 100 keys had acknowledged writes: {verdict}");
    assert!(matches!(verdict.findings[0], Finding::Lost { acknowledged: 1.., found: 0, .. }), "{verdict}");
    let (shards, killed) = (&verdict.report.shards, address(&cluster.shards[2][0]));
    for (shard, losses) in shards.iter().zip(tallies) {
        assert_eq!(losses > 0, shard.primary == killed, "only the killed server forgot: {verdict}");
    }
}

#[tokio::test]
async fn a_frozen_primary_is_a_gap_in_its_shard_alone() {
    let cluster = Loopback::form(Release::V8_1, 3, 0).await;
    let witness = Witness::start(settings(cluster.access())).await.unwrap();
    cluster.shards[0][0].freeze();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    cluster.shards[0][0].thaw();
    acknowledged(&witness, 900).await;
    let verdict = witness.stop().await.verify(&cluster.access()).await.unwrap();
    eprintln!("frozen primary:\n{verdict}");
    verdict.assert_nothing_lost();
    verdict.report.assert_no_failed_operations();
    let frozen = address(&cluster.shards[0][0]);
    for shard in &verdict.report.shards {
        let (gap, slowest) = (shard.longest_gap.length, shard.tally.latency.longest());
        if shard.primary == frozen {
            assert!(gap >= Duration::from_millis(1400), "{verdict}");
            assert!(
                slowest >= Duration::from_millis(1400),
                "a write was due while nobody answered: {verdict}"
            );
        } else {
            assert!(gap < Duration::from_secs(1), "the other shards were not touched: {verdict}");
        }
    }
    // The schedule went on: the writes of the gap were made up for.
    assert!(verdict.report.achieved_rate() > 800.0, "{verdict}");
}

/// The frozen server keeps its connections and answers nothing, like a machine that is cut off. What it finds in them when
/// it goes on must not be taken for a loss.
#[tokio::test]
async fn a_silent_primary_is_given_up_once_another_one_took_over() {
    let cluster = Loopback::form(Release::V9_1, 3, 1).await;
    for server in cluster.shards.iter().flatten() {
        let connection = cluster.open(server).await;
        connection.config_set(&[("cluster-node-timeout", "1000")]).await.unwrap();
    }
    let witness = Witness::start(settings(cluster.access())).await.unwrap();
    cluster.shards[0][0].freeze();
    let replica = cluster.open(&cluster.shards[0][1]).await;
    took_over(&replica).await;
    acknowledged(&witness, 900).await;
    let silence = witness.progress().silence;
    cluster.shards[0][0].thaw();
    cluster.wait_until_whole().await;
    acknowledged(&witness, 900).await;
    let verdict = witness.stop().await.verify(&cluster.access()).await.unwrap();
    eprintln!("silent primary:\n{verdict}");
    assert!(
        silence < Duration::from_secs(1),
        "the shard is served while its old primary is frozen: {verdict}"
    );
    verdict.assert_nothing_lost();
    verdict.report.assert_no_failed_operations();
    assert!(
        verdict.tally().retries.keys().any(Trouble::is_ambiguous),
        "writes were left unanswered: {verdict}"
    );
}

#[tokio::test]
async fn a_server_outside_of_any_cluster_is_one_shard() {
    let server = Server::start(Release::V9_1, "").unwrap_or_else(|error| panic!("{error}"));
    let access = Access::open([address(&server)]);
    let witness = Witness::start(settings(access.clone())).await.unwrap();
    acknowledged(&witness, 300).await;
    let report = witness.stop().await;
    let verdict = report.clone().verify(&access).await.unwrap();
    verdict.assert_nothing_lost();
    assert_eq!(verdict.report.shards.len(), 1);
    report.remove_keys(&access).await.unwrap();
    let verdict = report.verify(&access).await.unwrap();
    assert_eq!(verdict.lost, verdict.tally().acknowledged, "everything that was removed is missed");
}
