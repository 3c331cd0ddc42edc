//! What the sidecar sees of a real server, and what it says of it.

use std::fs;
use std::time::{Duration, Instant};

use pki::Authority;
use proto::heartbeat::{Event, Report, Server, ServerState};
use rustix::process::{Pid, Signal, kill_process};
use valkey::testing::Release;
use valkey::{Info, SlotRange};

use crate::support::operator::{Operator, authority};
use crate::support::sidecar::{POD, Sidecar, said_in_the_log, sign};
use crate::support::{Pod, eventually};

/// A pod whose server serves, its sidecar, and the operator that hears it.
async fn everybody(release: Release) -> (Pod, Sidecar, Operator, Authority) {
    let mut pod = Pod::new(release, "volatile", "maxmemory 64mb");
    let connection = pod.run().await;
    connection.cluster_add_slots(&[SlotRange::ALL]).await.unwrap();
    eventually("it is ready", || async { pod.ready().0.then_some(()) }).await;
    let authority = authority();
    sign(&pod, &authority, POD);
    let operator = Operator::at(([127, 0, 0, 1], 0).into(), &authority).await;
    let sidecar = Sidecar::start(&pod, operator.address, &[]);
    (pod, sidecar, operator, authority)
}

fn up(report: Option<&Report>) -> Option<&Server> {
    match &report?.server {
        ServerState::Up(server) => Some(server),
        _ => None,
    }
}

fn run_id(server: &Server) -> String {
    Info::parse(&server.info).server().run_id.unwrap()
}

#[tokio::test]
async fn what_is_seen_is_told_once_and_then_only_that_it_is_so() {
    for release in Release::ALL {
        let (pod, _sidecar, mut operator, _) = everybody(release).await;
        let first = operator.until(|said| up(said.report.as_ref()).is_some()).await;
        let server = up(first.report.as_ref()).unwrap();
        let nodes = valkey::cluster::ClusterNodes::parse(&server.cluster_nodes);
        assert_eq!(nodes.slots_of_myself(), [SlotRange::ALL]);
        assert!(Info::parse(&server.cluster_info).get("cluster_state") == Some("ok"));
        assert!(server.users.iter().any(|line| line.starts_with("user _agent on")), "{:?}", server.users);
        assert_eq!(server.config.get("maxmemory").map(String::as_str), Some("67108864"));
        assert!(server.config.keys().all(|name| !name.contains("auth")), "no password is told");
        assert_eq!(server.primary_password.as_ref().map(String::len), Some(64));
        let report = first.report.as_ref().unwrap();
        assert!(report.users.loaded.is_some() && report.sets_directives);
        // Nothing changes, and nothing is told again.
        for _ in 0..4 {
            let later = operator.next().await;
            assert!(later.report.is_none() && later.event.is_none());
            assert_eq!((later.revision, later.stamp.session), (first.revision, first.stamp.session));
            assert_eq!(later.stamp.pod_uid, "7c1e");
        }
        // Users that change are seen when somebody looks, and directives, too.
        let connection = pod.connect().await;
        connection.config_set(&[("maxmemory", "32mb")]).await.unwrap();
        let changed = operator.until(|said| said.revision > first.revision).await;
        let server = up(changed.report.as_ref()).unwrap();
        assert_eq!(server.config.get("maxmemory").map(String::as_str), Some("33554432"));
    }
}

#[tokio::test]
async fn a_server_that_dies_is_told_of_at_once() {
    let (mut pod, _sidecar, mut operator, _) = everybody(Release::ALL[0]).await;
    let before = operator.until(|said| up(said.report.as_ref()).is_some()).await;
    let lived = run_id(up(before.report.as_ref()).unwrap());
    let killed = Instant::now();
    pod.crash();
    let event = operator.until(|said| said.event.is_some()).await;
    let after = killed.elapsed();
    assert_eq!(event.event, Some(Event::ServerDied { run_id: lived.clone() }));
    assert!(event.report.unwrap().server == ServerState::Down);
    // A look a second would be late most of the time.
    assert!(after < Duration::from_millis(500), "{after:?}");
    pod.run().await;
    let back = operator.until(|said| up(said.report.as_ref()).is_some()).await;
    assert_ne!(run_id(up(back.report.as_ref()).unwrap()), lived);
}

#[tokio::test]
async fn what_happened_last_is_told_before_it_stops() {
    let (mut pod, mut sidecar, mut operator, _) = everybody(Release::ALL[0]).await;
    operator.until(|said| up(said.report.as_ref()).is_some()).await;
    pod.crash();
    // As the kubelet does, which waits for nothing in between.
    let id = i32::try_from(sidecar.process.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    let event = operator.until(|said| said.event.is_some()).await;
    assert!(event.report.unwrap().server == ServerState::Down);
    eventually("it stops", || {
        let ended = sidecar.process.try_wait().unwrap();
        async move { ended }
    })
    .await;
}

#[tokio::test]
async fn an_operator_that_knows_nothing_is_told_without_waiting() {
    let (_pod, _sidecar, mut operator, _) = everybody(Release::ALL[0]).await;
    let first = operator.until(|said| up(said.report.as_ref()).is_some()).await;
    // As a new leader would say.
    operator.answers.lock().unwrap().push("{\"answer\": \"ok\", \"wantsReport\": true, \"new\": [1]}");
    let asked = operator.until(|said| said.report.is_none()).await;
    let told = operator.next().await;
    assert!(up(told.report.as_ref()).is_some());
    assert_eq!((told.revision, told.stamp.sequence), (first.revision, asked.stamp.sequence + 1));
    assert!(operator.next().await.report.is_none());
}

#[tokio::test]
async fn certificates_are_replaced_while_it_runs() {
    let (pod, mut sidecar, mut operator, _) = everybody(Release::ALL[0]).await;
    let before = operator.next().await;
    let other = authority();
    operator.changes_to(&other);
    // The new ones come file by file, and those that do not fit together are not used.
    sign(&pod, &other, POD);
    let after = operator.until(|said| said.thumbprint != before.thumbprint).await;
    assert_eq!(after.stamp.session, before.stamp.session);
    assert!(sidecar.process.try_wait().unwrap().is_none());
    fs::write(pod.path("mtls/tls.key"), "no key").unwrap();
    operator.next().await;
    let still = operator.next().await;
    assert_eq!(still.thumbprint, after.thumbprint);
}

#[tokio::test]
async fn it_goes_on_without_an_operator_and_tells_when_one_is_back() {
    let (mut pod, mut sidecar, mut operator, authority) = everybody(Release::ALL[0]).await;
    operator.until(|said| up(said.report.as_ref()).is_some()).await;
    let address = operator.address;
    drop(operator);
    pod.crash();
    eventually("it notices", || async { said_in_the_log(&pod).contains("does not hear us").then_some(()) })
        .await;
    assert!(sidecar.get("/healthz").await.unwrap().starts_with("HTTP/1.1 200"));
    assert!(sidecar.get("/readyz").await.unwrap().starts_with("HTTP/1.1 200"));
    let metrics = sidecar.get("/metrics").await.unwrap();
    assert!(metrics.contains("valkey_agent_server_up 0\n"), "{metrics}");
    let mut operator = Operator::at(address, &authority).await;
    let event = operator.until(|said| said.event.is_some()).await;
    assert!(event.report.unwrap().server == ServerState::Down);
    eventually("it says so", || async {
        said_in_the_log(&pod).contains("the operator hears us").then_some(())
    })
    .await;
    assert!(sidecar.process.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn it_speaks_to_nobody_but_its_own_operator() {
    let (pod, _sidecar, mut operator, authority_of_it) = everybody(Release::ALL[0]).await;
    operator.next().await;
    // Somebody of another cluster answers at the operator's address.
    operator.changes_to(&authority());
    while tokio::time::timeout(Duration::from_secs(3), operator.next()).await.is_ok() {}
    assert!(said_in_the_log(&pod).contains("does not hear us"), "{}", said_in_the_log(&pod));
    operator.changes_to(&authority_of_it);
    operator.next().await;
}
