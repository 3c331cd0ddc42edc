//! What a server is started with, and as whom.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rcgen::generate_simple_self_signed;
use rustix::process::Signal;
use valkey::SlotRange;
use valkey::client::{Section, Value};
use valkey::testing::{Release, Server};

use crate::support::cluster::{join, tell};
use crate::support::{AGENT_PASSWORD, Pod, REPLICATION_PASSWORD, eventually, lasting_port};

/// A crashed primary of all slots, with a replica on this port.
fn crashed_primary(replica: &str) -> String {
    format!(
        "{} 127.0.0.1:1@2,,tls-port=0 myself,master - 0 0 3 connected 0-16383\n\
         {} {replica} slave {} 0 0 3 connected\nvars currentEpoch 3 lastVoteEpoch 0\n",
        "a".repeat(40),
        "b".repeat(40),
        "a".repeat(40),
    )
}

#[tokio::test]
async fn the_gate_becomes_the_server_and_tells_it_what_only_the_pod_knows() {
    for release in Release::ALL {
        let mut pod = Pod::new(release, "volatile", "");
        let connection = pod.run().await;
        let info = connection.info(&[Section::Server]).await.expect("should answer");
        assert_eq!(info.server().process_id, Some(pod.process_id()));
        let conf =
            connection.config_get(&["cluster-announce-ip", "primaryauth"]).await.expect("should answer");
        assert_eq!(conf["cluster-announce-ip"], "127.0.0.1");
        assert_eq!(conf["primaryauth"], REPLICATION_PASSWORD);
        let file = fs::metadata(pod.path("run/valkey.conf")).expect("should be there");
        assert_eq!(file.permissions().mode() & 0o7777, 0o600);
        for name in ["cmdline", "environ"] {
            let shown = fs::read(format!("/proc/{}/{name}", pod.process_id())).expect("should read");
            assert!(!String::from_utf8_lossy(&shown).contains("hush"), "{name}");
        }
        assert!(!pod.log().contains("hush"), "{}", pod.log());
        pod.signal(Signal::TERM);
        assert!(pod.end().success(), "the server should get the signals: {}", pod.log());
    }
}

#[tokio::test]
async fn without_its_data_a_server_comes_back_as_a_stranger() {
    for release in Release::ALL {
        let mut pod = Pod::new(release, "volatile", "appendonly yes");
        let connection = pod.run().await;
        connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
        let former = connection.cluster_myid().await.expect("should answer");
        eventually("it serves", || async { connection.raw(&["SET", "key", "value"]).await.ok() }).await;
        tell(&connection, "SAVE").await;
        pod.crash();

        let connection = pod.run().await;
        let table = connection.cluster_nodes().await.expect("should answer");
        assert_eq!(table.nodes.len(), 1);
        assert!(table.slots_of_myself().is_empty() && table.nodes[0].id != former, "{table:?}");
        let info = connection.info(&[Section::Keyspace]).await.expect("should answer");
        assert_eq!(info.get("db0"), None);
        assert!(pod.log().contains("starting as a stranger"), "{}", pod.log());
    }
}

/// A replica copies from whoever answers at its primary's address, also from a stranger that has nothing.
#[tokio::test]
async fn a_server_without_its_data_stays_away_until_its_replica_has_taken_over() {
    for release in Release::ALL {
        let mut pods = [(); 2].map(|()| Pod::new(release, "volatile", "cluster-node-timeout 60000"));
        let connections = join(&mut pods, 1).await;
        eventually("the replica has it", || async {
            tell(&connections[0], "SET b value").await;
            let having = connections[0].raw(&["WAIT", "1", "100"]).await.expect("should answer");
            (having == Value::Int(1)).then_some(())
        })
        .await;
        // A machine that is busy must not keep the replica from answering in one of these times.
        pods[0].flags = vec!["--peer-wait", "2s"];
        pods[0].crash();
        pods[0].start();
        // Far longer than the limit, and longer than replicas take to connect again.
        eventually("the gate waits on", || async {
            (pods[0].log().matches("waiting on:").count() > 2).then_some(())
        })
        .await;
        tell(&connections[1], "CLUSTER FAILOVER TAKEOVER").await;
        pods[0].connect().await;
        let log = pods[0].log();
        assert!(log.contains("is gone: its slots belong to"), "{log}");
        let kept = connections[1].raw(&["GET", "b"]).await.expect("should answer");
        assert_eq!(kept, Value::BulkString(b"value".to_vec()));
    }
}

#[tokio::test]
async fn with_its_data_a_server_comes_back_as_who_it_was() {
    for release in Release::ALL {
        let mut pod = Pod::new(release, "kept", "appendonly yes");
        let connection = pod.run().await;
        connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
        let former = connection.cluster_myid().await.expect("should answer");
        eventually("it serves", || async { connection.raw(&["SET", "key", "value"]).await.ok() }).await;
        pod.crash();

        let connection = pod.run().await;
        assert_eq!(connection.cluster_myid().await.expect("should answer"), former);
        let table = connection.cluster_nodes().await.expect("should answer");
        assert_eq!(table.slots_of_myself(), [SlotRange::ALL]);
        assert!(pod.log().contains("it knew no replica that could take over"), "{}", pod.log());
    }
}

/// A lone server that says of itself that it took everything over.
async fn take_over(server: &Server) -> String {
    let connection = valkey::Connection::open(&server.target()).await.expect("should let us in");
    tell(&connection, "CLUSTER SET-CONFIG-EPOCH 9").await;
    connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
    connection.cluster_myid().await.expect("should answer")
}

fn peer_conf() -> String {
    format!("cluster-enabled yes\nuser _agent on >{AGENT_PASSWORD} -@all +cluster|nodes\n")
}

/// As servers write it down when they are stopped a moment after a replica changed its primary. Those of 8.1 die of it.
#[tokio::test]
async fn a_table_that_contradicts_itself_is_no_end() {
    for release in Release::ALL {
        let mut pod = Pod::new(release, "kept", "");
        let [me, primary, one, other] = ["a", "b", "1", "2"].map(|letter| letter.repeat(40));
        let line = |id: &str, port: u16, shard: &str, rest: &str| {
            format!("{id} 127.0.0.1:{port}@{},,tls-port=0,shard-id={shard} {rest}\n", port + 1)
        };
        pod.leave_behind(&format!(
            "{}{}vars currentEpoch 3 lastVoteEpoch 0\n",
            line(&me, 1, &one, &format!("myself,slave {primary} 0 0 3 connected")),
            line(&primary, 3, &other, "master - 0 0 3 connected 0-16383"),
        ));
        let connection = pod.run().await;
        assert_eq!(connection.cluster_myid().await.expect("should answer"), me);
        assert!(pod.log().contains("of another shard than its primary's: mended"), "{}", pod.log());
    }
}

#[tokio::test]
async fn a_peer_is_asked_until_it_says_that_somebody_took_over() {
    for release in Release::ALL {
        let peer = Server::start(release, &peer_conf()).expect("should start");
        let mut pod = Pod::new(release, "kept", "");
        pod.leave_behind(&crashed_primary(&format!("127.0.0.1:{}@1", peer.port())));
        pod.start();
        eventually("the gate waits", || async { pod.log().contains("waiting:").then_some(()) }).await;
        let command_line = fs::read(format!("/proc/{}/cmdline", pod.process_id())).expect("should read");
        assert!(!String::from_utf8_lossy(&command_line).contains("hush"));
        let owner = take_over(&peer).await;
        pod.connect().await;
        assert!(pod.log().contains(&format!("its slots belong to {owner} now")), "{}", pod.log());
        assert!(!pod.log().contains("hush"), "{}", pod.log());
    }
}

#[tokio::test]
async fn peers_are_asked_over_tls_where_the_server_speaks_it() {
    for release in Release::ALL {
        let files = tempfile::tempdir().expect("should make a directory");
        let certificate = generate_simple_self_signed(["peer.test".to_owned()]).expect("should sign");
        let (cert, key) = (files.path().join("crt"), files.path().join("key"));
        fs::write(&cert, certificate.cert.pem()).expect("should write");
        fs::write(&key, certificate.signing_key.serialize_pem()).expect("should write");
        let tls = format!(
            "tls-cert-file {cert}\ntls-key-file {key}\ntls-ca-cert-file {cert}\ntls-auth-clients no\n",
            cert = cert.display(),
            key = key.display(),
        );
        let peer = Server::start_with_tls(release, &format!("{}{tls}", peer_conf())).expect("should start");
        let owner = take_over(&peer).await;
        let mut pod = Pod::new(release, "kept", &tls);
        pod.configure(&format!("tls-port {}", lasting_port()));
        pod.flags.extend(["--peer-name", "peer.test"]);
        let tls_port = peer.tls_port().expect("should have a port");
        // Nobody listens on the port without TLS: only the other one can have answered.
        pod.leave_behind(&crashed_primary(&format!("127.0.0.1:1@2,,tls-port={tls_port}")));
        pod.run().await;
        assert!(pod.log().contains(&format!("its slots belong to {owner} now")), "{}", pod.log());
    }
}

#[tokio::test]
async fn the_wait_is_bounded_and_says_who_did_not_answer() {
    let release = Release::V9_1;
    let mut pod = Pod::new(release, "kept", "");
    pod.flags = vec!["--peer-wait", "300ms"];
    pod.leave_behind(&crashed_primary("127.0.0.1:1@2"));
    let connection = pod.run().await;
    assert_eq!(connection.cluster_myid().await.expect("should answer"), "a".repeat(40));
    let log = pod.log();
    assert!(
        log.contains("0 peers answered, 1 did not; failed to connect")
            && log.contains("nobody took over within 300ms"),
        "{log}"
    );
}

#[tokio::test]
async fn a_pod_that_is_to_stop_does_not_wait() {
    let mut pod = Pod::new(Release::V9_1, "kept", "");
    pod.leave_behind(&crashed_primary("127.0.0.1:1@2"));
    pod.start();
    eventually("the gate waits", || async { pod.log().contains("waiting:").then_some(()) }).await;
    pod.signal(Signal::TERM);
    let status = pod.end();
    assert_eq!(status.code(), Some(0), "{status}: {}", pod.log());
    assert!(pod.log().ends_with("told to stop before the server was started\n"), "{}", pod.log());
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    type Break = fn(&Pod);
    let cases: [(Break, &str); 5] = [
        (|pod| fs::remove_file(pod.path("base.conf")).expect("was there"), "failed to read"),
        (
            |pod| fs::remove_file(pod.path("secrets/_replication")).expect("was there"),
            "password of _replication",
        ),
        (|pod| fs::remove_dir_all(pod.path("run")).expect("was there"), "run/valkey.conf: No such file"),
        // The server itself would crash on it.
        (|pod| pod.write_users("user bob on (~x"), "a selector in line 4 is not closed"),
        (
            |pod| {
                pod.leave_behind(&crashed_primary("127.0.0.1:1@2"));
                fs::remove_file(pod.path("secrets/_agent")).expect("was there");
            },
            "password of _agent",
        ),
    ];
    for (break_it, expected) in cases {
        let mut pod = Pod::new(Release::V9_1, "kept", "");
        break_it(&pod);
        pod.start();
        assert_eq!(pod.end().code(), Some(1), "{}", pod.log());
        assert!(pod.log().contains(expected) && !pod.log().contains("hush"), "{}", pod.log());
    }
}
