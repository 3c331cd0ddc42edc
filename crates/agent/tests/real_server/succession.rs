//! A primary that dies is replaced at the word of the agent beside it, long before anybody else suspects it: the timeout of nodes is ten
//! seconds here. All pods have the same address and are told apart by their ports, so every agent is told where the others are; that
//! orders from another address are refused is in the tables of `acceptance.rs`.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pki::{Authority, Role as Part};
use proto::agent::{Outcome, Reason, TakeOverRequest};
use rustix::process::{Pid, Signal, kill_process};
use valkey::Connection;
use valkey::client::Value;
use valkey::role::Role;
use valkey::testing::Release;

use crate::support::caller::Caller;
use crate::support::cluster::{join, tell};
use crate::support::operator::{authority, identity};
use crate::support::sidecar::{Sidecar, lasting_address, said_in_the_log, sign};
use crate::support::{Pod, eventually};

const CONF: &str = "cluster-node-timeout 10000";
/// A key of a slot of the first shard, of however many.
const KEY: &str = "b";

/// A cluster with an agent beside each server, and no operator.
struct World {
    pods: Vec<Pod>,
    connections: Vec<Connection>,
    sidecars: Vec<Option<Sidecar>>,
    /// What every agent is told about where the others are.
    peers: Vec<String>,
    authority: Authority,
    /// How many replicas of the first shard hold a copy.
    held: usize,
}

fn workload(shards: usize, number: usize) -> String {
    format!("valkey-cache-{}-{}", number % shards, number / shards)
}

impl World {
    /// Pods in the order of `join`, each sidecar with the flags for its pod.
    async fn new(release: Release, shape: [usize; 2], flags: fn(usize) -> &'static str) -> Self {
        Self::with(release, shape, flags, None).await
    }

    /// The same, with one that its primary does not let in: it follows, and gets nothing.
    async fn with(
        release: Release,
        [shards, copies]: [usize; 2],
        flags: fn(usize) -> &'static str,
        empty: Option<usize>,
    ) -> Self {
        let mut pods: Vec<Pod> = (0..shards * copies).map(|_| Pod::new(release, "volatile", CONF)).collect();
        if let Some(empty) = empty {
            fs::write(pods[empty].path("secrets/_replication"), "wrong").unwrap();
        }
        for (number, pod) in pods.iter().enumerate() {
            pod.configure(&format!("cluster-announce-hostname {}.team.svc", workload(shards, number)));
        }
        let connections = join(&mut pods, shards).await;
        for (number, connection) in connections.iter().enumerate().skip(shards) {
            eventually("it has a copy", || async {
                if empty == Some(number) {
                    return Some(());
                }
                let role = connection.role().await.expect("should answer");
                let is_connected = matches!(&role, Role::Replica { state, .. } if state == "connected");
                is_connected.then_some(())
            })
            .await;
            let host = format!("{}.team.svc", workload(shards, number % shards));
            eventually("it knows its primary's host", || async {
                let table = connection.cluster_nodes().await.expect("should answer");
                table.nodes.iter().any(|node| node.address.hostname.as_deref() == Some(&host)).then_some(())
            })
            .await;
        }
        let authority = authority();
        let agents: Vec<SocketAddr> = pods.iter().map(|_| lasting_address()).collect();
        let mut peers = Vec::new();
        for (pod, agent) in pods.iter().zip(&agents) {
            peers.extend(["--peer".to_owned(), format!("127.0.0.1:{}={agent}", pod.port())]);
        }
        let mut sidecars = Vec::new();
        for (number, (pod, agent)) in pods.iter().zip(&agents).enumerate() {
            sign(pod, &authority, &format!("{}-0", workload(shards, number)));
            let own = flags(number).split_ascii_whitespace().map(str::to_owned);
            let flags: Vec<String> = peers.iter().cloned().chain(own).collect();
            sidecars.push(Some(Sidecar::start_at(pod, ([127, 0, 0, 1], 1).into(), *agent, &flags)));
        }
        let held = copies - 1 - usize::from(empty.is_some());
        let world = Self { pods, connections, sidecars, peers, authority, held };
        // Nothing is taken over where there was never anything to hold.
        world.write().await;
        for number in 0..world.pods.len() {
            eventually("every agent looks", || async {
                world.metrics(number).await?.contains("\nvalkey_agent_server_up 1\n").then_some(())
            })
            .await;
        }
        world
    }

    async fn metrics(&self, number: usize) -> Option<String> {
        self.sidecars[number].as_ref()?.get("/metrics").await
    }

    fn agent(&self, number: usize) -> SocketAddr {
        self.sidecars[number].as_ref().expect("should run").grpc
    }

    /// A write that those have.
    async fn write(&self) {
        tell(&self.connections[0], &format!("SET {KEY} new")).await;
        let held = self.connections[0].raw(&["WAIT", &self.held.to_string(), "5000"]).await.unwrap();
        assert_eq!(held, Value::Int(i64::try_from(self.held).unwrap()));
    }

    async fn leads(&self, number: usize) -> bool {
        matches!(self.connections[number].role().await, Ok(Role::Primary { .. }))
    }

    /// Which of these leads, and how long after this moment.
    async fn until_led(&self, by: &[usize], begun: Instant) -> (usize, Duration) {
        let leader = loop {
            let mut leader = None;
            for number in by {
                if self.leads(*number).await {
                    leader = Some(*number);
                }
            }
            if let Some(leader) = leader {
                break leader;
            }
            assert!(begun.elapsed() < Duration::from_secs(8), "{}", self.logs());
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        (leader, begun.elapsed())
    }

    fn logs(&self) -> String {
        self.pods.iter().map(said_in_the_log).collect::<Vec<_>>().join("\n")
    }

    async fn order(&self) -> TakeOverRequest {
        let table = self.connections[0].cluster_nodes().await.unwrap();
        let myself = table.myself().unwrap();
        TakeOverRequest {
            dead_node_id: myself.id.clone(),
            config_epoch: myself.config_epoch,
            run_id: "test".to_owned(),
        }
    }

    fn caller(&self, role: Part, pod: Option<&str>) -> Caller {
        Caller::new(&self.authority, identity(role, pod))
    }

    async fn still_has_the_write(&self, number: usize) {
        eventually("the write is there", || async {
            let value = self.connections[number].raw(&["GET", KEY]).await.ok()?;
            (value == Value::BulkString(b"new".to_vec())).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_replica_leads_within_a_second_of_a_crash_and_has_every_acknowledged_write() {
    for release in Release::ALL {
        for (shards, expected) in [(3, "elected"), (1, "taken"), (2, "taken")] {
            let mut world = World::new(release, [shards, 2], |_| "").await;
            world.write().await;
            let begun = Instant::now();
            world.pods[0].crash();
            let (leader, took) = world.until_led(&[shards], begun).await;
            println!("{release:?}, {shards} shards: {leader} leads after {took:?}");
            assert!(took < Duration::from_secs(1), "{took:?}: {}", world.logs());
            world.still_has_the_write(shards).await;
            eventually("both sides count it", || async {
                let dead = world.metrics(0).await?;
                let successor = world.metrics(shards).await?;
                let of = |side: &str, outcome: &str| {
                    format!("valkey_agent_takeovers_total{{side=\"{side}\",outcome=\"{outcome}\"}} 1")
                };
                (dead.contains(&of("dead", "takenOver")) && successor.contains(&of("successor", expected)))
                    .then_some(())
            })
            .await;
            let (dead, successor) = (said_in_the_log(&world.pods[0]), said_in_the_log(&world.pods[shards]));
            assert!(dead.contains("took over (it leads"), "{dead}");
            assert!(successor.contains("to take over from"), "{successor}");
        }
    }
}

#[tokio::test]
async fn nothing_happens_where_it_is_switched_off() {
    let mut world = World::new(Release::ALL[0], [3, 2], |_| "--failover off").await;
    let order = world.order().await;
    let refused = world.caller(Part::Operator, None).take_over(world.agent(3), order).await.unwrap();
    assert_eq!((refused.outcome(), refused.reason()), (Outcome::Refused, Reason::SwitchedOff));
    world.pods[0].crash();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!world.leads(3).await);
}

#[tokio::test]
async fn a_replica_that_dies_is_no_reason_to_do_anything() {
    let mut world = World::new(Release::ALL[0], [1, 2], |_| "").await;
    world.pods[1].crash();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for number in 0..2 {
        let metrics = world.metrics(number).await.unwrap();
        assert!(!metrics.contains("valkey_agent_takeovers_total{"), "{metrics}");
    }
}

#[tokio::test]
async fn orders_that_are_not_right_are_refused() {
    for release in Release::ALL {
        let world = World::new(release, [3, 2], |_| "").await;
        let order = world.order().await;
        let successor = world.agent(3);
        let beside = world.caller(Part::Sidecar, Some("valkey-cache-0-0-0"));
        let another = world.caller(Part::Sidecar, Some("valkey-cache-1-0-0"));
        let operator = world.caller(Part::Operator, None);
        let stale = TakeOverRequest { config_epoch: order.config_epoch - 1, ..order.clone() };
        let stranger = TakeOverRequest { dead_node_id: "0".repeat(40), ..order.clone() };
        for (what, caller, order, expected) in [
            ("an older claim", &beside, &stale, Reason::OtherEpoch),
            ("a stranger", &beside, &stranger, Reason::NotItsReplica),
            ("the agent of another pod", &another, &order, Reason::NotItsAgent),
            ("a primary that lives", &beside, &order, Reason::PrimaryLives),
            ("a primary that lives, says the operator", &operator, &order, Reason::PrimaryLives),
        ] {
            let answer = caller.take_over(successor, order.clone()).await.unwrap();
            assert_eq!((answer.outcome(), answer.reason()), (Outcome::Refused, expected), "{what}");
        }
        // The replica of another shard.
        let answer = beside.take_over(world.agent(4), order.clone()).await.unwrap();
        assert_eq!(answer.reason(), Reason::NotItsReplica);
        // Two at the same time.
        let (one, other) = tokio::join!(
            beside.take_over(successor, order.clone()),
            operator.take_over(successor, order.clone())
        );
        let mut reasons = [one.unwrap().reason(), other.unwrap().reason()];
        reasons.sort();
        assert_eq!(reasons, [Reason::UnderWay, Reason::PrimaryLives]);
        assert!(world.leads(0).await && !world.leads(3).await);
    }
}

#[tokio::test]
async fn the_operator_can_order_an_election_and_nothing_without_votes() {
    for (shards, expected) in
        [(3, (Outcome::Elected, Reason::Unspecified)), (1, (Outcome::Refused, Reason::NoMajority))]
    {
        let mut world = World::new(Release::ALL[0], [shards, 2], |_| "").await;
        let order = world.order().await;
        // The whole pod is gone.
        world.sidecars[0] = None;
        world.pods[0].crash();
        let answer = world.caller(Part::Operator, None).take_over(world.agent(shards), order).await.unwrap();
        assert_eq!((answer.outcome(), answer.reason()), expected, "{}", world.logs());
        assert_eq!(world.leads(shards).await, expected.0 == Outcome::Elected);
    }
}

#[tokio::test]
async fn the_next_best_takes_over_where_the_best_cannot_be_reached() {
    let mut world = World::new(Release::ALL[1], [1, 3], |_| "").await;
    world.write().await;
    world.sidecars[1] = None;
    let begun = Instant::now();
    world.pods[0].crash();
    let (leader, took) = world.until_led(&[1, 2], begun).await;
    assert_eq!(leader, 2);
    println!("{leader} leads after {took:?}");
    world.still_has_the_write(2).await;
    eventually("the other one follows it", || async {
        let role = world.connections[1].role().await.ok()?;
        matches!(role, Role::Replica { port, .. } if port == world.pods[2].port()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_never_got_a_copy_does_not_lead() {
    for release in Release::ALL {
        let mut world = World::with(release, [1, 3], |_| "", Some(1)).await;
        world.write().await;
        let begun = Instant::now();
        world.pods[0].crash();
        let (leader, took) = world.until_led(&[1, 2], begun).await;
        println!("{release:?}: {leader} leads after {took:?}");
        assert_eq!(leader, 2);
        world.still_has_the_write(2).await;
        // Nor does it where nobody else is left, whoever says so.
        let world = World::with(release, [3, 2], |_| "", Some(3)).await;
        let caller = world.caller(Part::Sidecar, Some("valkey-cache-0-0-0"));
        let answer = caller.take_over(world.agent(3), world.order().await).await.unwrap();
        assert_eq!((answer.outcome(), answer.reason()), (Outcome::Refused, Reason::CopyNotWhole));
    }
}

#[tokio::test]
async fn a_replica_leads_without_votes_where_those_who_could_vote_are_silent() {
    let mut world = World::new(Release::ALL[1], [3, 2], |_| "").await;
    world.write().await;
    world.pods[1].signal(Signal::STOP);
    world.pods[2].signal(Signal::STOP);
    let begun = Instant::now();
    world.pods[0].crash();
    let (_, took) = world.until_led(&[3], begun).await;
    println!("leads after {took:?}");
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(3), "{took:?}: {}", world.logs());
    eventually("it is counted", || async {
        world.metrics(3).await?.contains("outcome=\"taken\"} 1").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_is_told_to_stop_has_somebody_take_over_first() {
    let mut world = World::new(Release::ALL[0], [3, 2], |_| "").await;
    let begun = Instant::now();
    world.pods[0].crash();
    // As the kubelet does, which waits for nothing in between.
    let process = &mut world.sidecars[0].as_mut().unwrap().process;
    kill_process(i32::try_from(process.id()).ok().and_then(Pid::from_raw).unwrap(), Signal::TERM).unwrap();
    let (_, took) = world.until_led(&[3], begun).await;
    assert!(took < Duration::from_secs(1), "{took:?}: {}", world.logs());
    assert!(world.sidecars[0].as_mut().unwrap().process.wait().unwrap().success());
}

/// A server that is told to stop hands over by itself where it can, and a second order would throw the election back.
#[tokio::test]
async fn a_server_that_is_told_to_stop_is_replaced_within_three_seconds() {
    for release in Release::ALL {
        let mut world = World::new(release, [3, 2], |_| "").await;
        world.write().await;
        let begun = Instant::now();
        world.pods[0].signal(Signal::TERM);
        let (_, took) = world.until_led(&[3], begun).await;
        println!("{release:?}: leads after {took:?}");
        // A server that stops waits up to a second to hear from its replicas, whether it hands over or not.
        assert!(took < Duration::from_secs(3), "{took:?}: {}", world.logs());
        world.still_has_the_write(3).await;
        world.pods[0].end();
        eventually("it is said how", || async {
            let log = said_in_the_log(&world.pods[0]);
            (log.contains("took over (it leads") || log.contains("had taken over")).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn nobody_is_asked_any_more_once_the_server_is_back() {
    let flags = |number| if number == 1 { "--failover off" } else { "" };
    let mut world = World::new(Release::ALL[0], [1, 2], flags).await;
    world.pods[0].crash();
    eventually("the replica was asked", || async {
        said_in_the_log(&world.pods[1]).contains("switched off").then_some(())
    })
    .await;
    // One that has nothing would stay away while it is followed, and one that waits for long is back too late.
    (world.pods[0].data, world.pods[0].flags) = ("kept", vec!["--peer-wait", "1ms"]);
    world.pods[0].start();
    let ended = eventually("it ends", || async {
        let log = said_in_the_log(&world.pods[0]);
        log.lines().find(|line| line.contains("the server died")).map(str::to_owned)
    })
    .await;
    assert!(ended.contains("the server is back"), "{ended}");
    assert!(world.metrics(0).await.unwrap().contains("outcome=\"serverBack\"} 1"));
    assert!(!world.leads(1).await);
}

/// Others replace a primary that they miss because its agent said that it stops its writes. An agent that is killed right after it said
/// so, and comes back to a server that reaches nobody, has to keep that word.
#[tokio::test]
async fn an_agent_that_comes_back_keeps_the_word_of_the_one_before_it() {
    for release in Release::ALL {
        let mut world = World::new(release, [1, 3], |_| "").await;
        eventually("others gave their word", || async {
            world.metrics(0).await?.contains("\nvalkey_agent_leads 1\n").then_some(())
        })
        .await;
        let agent = world.agent(0);
        world.sidecars[0] = None;
        for number in [1, 2] {
            world.sidecars[number] = None;
            world.pods[number].crash();
        }
        tell(&world.connections[0], &format!("SET {KEY} newer")).await;
        let begun = Instant::now();
        let nobody = ([127, 0, 0, 1], 1).into();
        world.sidecars[0] = Some(Sidecar::start_at(&world.pods[0], nobody, agent, &world.peers));
        let refusal = eventually("no write is taken", || async {
            world.connections[0].raw(&["SET", KEY, "newest"]).await.err()
        })
        .await;
        println!("{release:?}: {refusal} after {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}: {}", begun.elapsed(), world.logs());
        assert!(format!("{refusal:?}").contains("NOREPLICAS"), "{refusal:?}");
    }
}
