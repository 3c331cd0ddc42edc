//! All pods are replaced at once, at other addresses, and no operator is there: agents bring their servers together again.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pki::Authority;
use rustix::process::Signal;
use valkey::Connection;
use valkey::client::Value;
use valkey::testing::Release;

use crate::support::cluster::{join, tell};
use crate::support::operator::authority;
use crate::support::sidecar::{Sidecar, lasting_address, said_in_the_log, sign};
use crate::support::{Pod, eventually};

const SHARDS: usize = 3;

fn workload(number: usize) -> String {
    format!("valkey-cache-{}-{}", number % SHARDS, number / SHARDS)
}

fn host(number: usize) -> String {
    format!("{}.team.svc", workload(number))
}

/// Pods of three shards with a copy each, and a key in the first.
async fn settled(release: Release) -> Vec<Pod> {
    let mut pods: Vec<Pod> =
        (0..2 * SHARDS).map(|_| Pod::new(release, "kept", "cluster-node-timeout 5000")).collect();
    for (number, pod) in pods.iter().enumerate() {
        pod.configure(&format!("appendonly yes\ncluster-announce-hostname {}", host(number)));
    }
    let connections = join(&mut pods, SHARDS).await;
    for connection in &connections {
        eventually("everybody's name is known", || async {
            let table = connection.cluster_nodes().await.expect("should answer");
            let named = table.nodes.iter().filter(|node| node.address.hostname.is_some()).count();
            (named == 2 * SHARDS).then_some(())
        })
        .await;
    }
    tell(&connections[0], "SET b kept").await;
    let held = connections[0].raw(&["WAIT", "1", "5000"]).await.unwrap();
    assert_eq!(held, Value::Int(1));
    pods
}

/// Every pod ends and is replaced by one at another address.
async fn replace_all(pods: &mut [Pod]) -> Vec<Connection> {
    for pod in &*pods {
        pod.signal(Signal::TERM);
    }
    // One that is still there would learn where the first to come back is, and everybody would find everybody by way of it.
    for pod in &mut *pods {
        pod.end();
    }
    for pod in &mut *pods {
        pod.move_to_a_new_pod();
        pod.start();
    }
    let mut connections = Vec::new();
    for pod in &*pods {
        connections.push(pod.connect().await);
    }
    connections
}

/// An agent beside each server; `names` says at whose agent each name leads.
fn agents(pods: &[Pod], authority: &Authority, names: fn(usize) -> usize) -> Vec<Sidecar> {
    let addresses: Vec<SocketAddr> = pods.iter().map(|_| lasting_address()).collect();
    let mut flags = Vec::new();
    for number in 0..pods.len() {
        flags.extend(["--host".to_owned(), format!("{}={}", host(number), addresses[names(number)])]);
    }
    let start = |(number, pod): (usize, &Pod)| {
        sign(pod, authority, &format!("{}-0", workload(number)));
        Sidecar::start_at(pod, ([127, 0, 0, 1], 1).into(), addresses[number], &flags)
    };
    pods.iter().enumerate().map(start).collect()
}

async fn reached(connection: &Connection) -> usize {
    let table = connection.cluster_nodes().await.expect("should answer");
    table.nodes.iter().filter(|node| node.connected).count()
}

/// Who has spoken to this server. A link of its own counts as one while it is only being tried, so that the others' are looked at.
async fn heard(connection: &Connection) -> usize {
    let from = Value::BulkString(b"from".to_vec());
    let is_heard = |link: &&Value| match link {
        Value::Map(fields) => fields.iter().any(|(_, value)| *value == from),
        Value::Array(fields) => fields.contains(&from),
        _ => false,
    };
    match connection.raw(&["CLUSTER", "LINKS"]).await.expect("should answer") {
        Value::Array(links) => links.iter().filter(is_heard).count(),
        _ => 0,
    }
}

#[tokio::test]
async fn servers_that_all_moved_find_each_other_by_name() {
    for release in Release::ALL {
        let mut pods = settled(release).await;
        let connections = replace_all(&mut pods).await;
        for connection in &connections {
            assert_eq!(heard(connection).await, 0, "without agents nobody finds anybody");
        }
        let begun = Instant::now();
        let _agents = agents(&pods, &authority(), |number| number);
        for connection in &connections {
            eventually("everybody is reached, and every slot is served", || async {
                let info = connection.cluster_info().await.expect("should answer");
                let is_ok = info.get("cluster_state") == Some("ok");
                let has_all = heard(connection).await == 2 * SHARDS - 1;
                (is_ok && has_all && reached(connection).await == 2 * SHARDS).then_some(())
            })
            .await;
        }
        eprintln!("{release:?}: together again {:?} after the agents started", begun.elapsed());
        // Whoever leads the shard now.
        let value = eventually("the key is there", || async {
            let mut found = None;
            for connection in [&connections[0], &connections[SHARDS]] {
                found = found.or(connection.raw(&["GET", "b"]).await.ok());
            }
            found
        })
        .await;
        assert_eq!(value, Value::BulkString(b"kept".to_vec()));
    }
}

/// Addresses are used again: a name that leads to somebody else introduces nobody.
#[tokio::test]
async fn nobody_is_introduced_who_is_not_the_one_that_was_lost() {
    let mut pods = settled(Release::V9_1).await;
    let connections = replace_all(&mut pods).await;
    let _agents = agents(&pods, &authority(), |number| (number + 1) % (2 * SHARDS));
    for pod in &pods {
        eventually("somebody else is found", || async {
            said_in_the_log(pod).contains("somebody else is there").then_some(())
        })
        .await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    for connection in &connections {
        assert_eq!(heard(connection).await, 0, "somebody was introduced");
    }
}
