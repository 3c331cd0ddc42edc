//! When a pod is ready, and what the probe does on the way.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use valkey::client::Value;
use valkey::testing::Release;
use valkey::{Connection, SlotRange};

use crate::support::cluster::tell;
use crate::support::{Pod, eventually};

/// A pod whose server serves, as the probe has seen.
async fn serving(release: Release) -> (Pod, Connection) {
    let mut pod = Pod::new(release, "volatile", "enable-debug-command yes");
    let connection = pod.run().await;
    connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
    eventually("it is ready", || async { pod.ready().0.then_some(()) }).await;
    (pod, connection)
}

/// How often the server was told to load its users.
async fn loads(connection: &Connection) -> u64 {
    let stats = connection.info_all().await.expect("should answer");
    let calls = stats.get("cmdstat_acl|load").and_then(|stats| stats.split([',', '=']).nth(1));
    calls.map_or(0, |calls| calls.parse().expect("should be a number"))
}

async fn knows(connection: &Connection, user: &str) -> bool {
    connection.raw(&["ACL", "GETUSER", user]).await.expect("should answer") != Value::Nil
}

#[tokio::test]
async fn a_pod_is_ready_once_its_server_knew_all_slots() {
    for release in Release::ALL {
        let mut pod = Pod::new(release, "volatile", "");
        let (ready, said) = pod.ready();
        assert!(!ready && said.contains("failed to connect"), "{said}");

        let connection = pod.run().await;
        let (ready, said) = pod.ready();
        assert!(!ready, "{said}");
        assert_eq!(said, "valkey-agent: not ready: cluster state fail, 0 of 16384 slots are assigned\n");
        connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
        eventually("it is ready", || async { pod.ready().0.then_some(()) }).await;

        // A cluster that is in trouble later takes nobody out of service who can point to others.
        tell(&connection, "CLUSTER DELSLOTS 7").await;
        assert_eq!(pod.ready(), (true, String::new()));

        // Another server knows nothing of what the last one knew.
        pod.crash();
        pod.run().await;
        let (ready, said) = pod.ready();
        assert!(!ready && said.contains("0 of 16384"), "{said}");
    }
}

/// The probe of a starting pod waits inside: what it waits for is seen when it happens.
#[tokio::test]
async fn a_probe_that_waits_ends_when_the_pod_is_ready() {
    let mut pod = Pod::new(Release::ALL[0], "volatile", "");
    let connection = pod.run().await;
    let begun = Instant::now();
    let (ready, said) = pod.ready_within("600ms");
    assert!(!ready && said.contains("0 of 16384"), "{said}");
    assert!(begun.elapsed() >= Duration::from_millis(300), "it gave up after {:?}", begun.elapsed());

    let waiting = std::thread::spawn(move || (pod.ready_within("30s"), Instant::now(), pod));
    connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
    eventually("the server serves", || async {
        let info = connection.cluster_info().await.expect("should answer");
        (info.get("cluster_state") == Some("ok")).then_some(())
    })
    .await;
    let serves = Instant::now();
    let ((ready, said), ended, _pod) = waiting.join().expect("should end");
    assert!(ready, "{said}");
    assert!(ended < serves + Duration::from_secs(2), "{:?} after the server served", ended - serves);
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_not_ready() {
    for release in Release::ALL {
        let mut pod = Pod::new(release, "kept", "enable-debug-command yes");
        let connection = pod.run().await;
        connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
        tell(&connection, "DEBUG POPULATE 2000").await;
        tell(&connection, "SAVE").await;
        pod.crash();
        pod.configure("key-load-delay 5000");
        pod.configure("loading-process-events-interval-bytes 1024");
        pod.start();
        eventually("it says that it loads", || async {
            let (ready, said) = pod.ready();
            assert!(!ready, "{said}");
            said.contains("the server is loading its data").then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_server_that_stands_still_is_not_ready_and_the_probe_ends_in_time() {
    let (pod, _) = serving(Release::V9_1).await;
    pod.signal(Signal::STOP);
    let begin = Instant::now();
    let (ready, said) = pod.ready();
    assert!(!ready && said.contains("not through with AUTH"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    pod.signal(Signal::CONT);
    eventually("it is ready again", || async { pod.ready().0.then_some(()) }).await;
}

#[tokio::test]
async fn a_changed_users_file_is_loaded_once() {
    for release in Release::ALL {
        let (pod, connection) = serving(release).await;
        assert_eq!(loads(&connection).await, 0, "the server started with this file");
        pod.write_users("user bob on nopass +ping");
        for _ in 0..3 {
            assert_eq!(pod.ready(), (true, String::new()));
        }
        assert!(knows(&connection, "bob").await);
        assert_eq!(loads(&connection).await, 1);
    }
}

#[tokio::test]
async fn a_refused_users_file_is_told_once_and_changes_nothing() {
    for release in Release::ALL {
        let (pod, connection) = serving(release).await;
        pod.write_users("user bob on nopass +nonsense");
        let (ready, said) = pod.ready();
        assert!(ready && said.contains("Error in applying operation '+nonsense'"), "{said}");
        assert_eq!(pod.ready(), (true, String::new()));
        assert_eq!(loads(&connection).await, 1);
        assert!(!knows(&connection, "bob").await);

        pod.write_users("user bob on nopass +ping (~x +get");
        let (ready, said) = pod.ready();
        assert!(ready && said.contains("a selector in line 4 is not closed"), "{said}");
        assert_eq!(loads(&connection).await, 1, "the server should not even see it");

        pod.write_users("user bob on nopass +ping");
        assert_eq!(pod.ready(), (true, String::new()));
        assert!(knows(&connection, "bob").await);
        assert_eq!(loads(&connection).await, 2);
    }
}

#[tokio::test]
async fn a_password_that_is_on_its_way_takes_nobody_out_of_service() {
    let (pod, connection) = serving(Release::V9_1).await;
    fs::write(pod.path("secrets/_agent"), "hush-next").expect("should write");
    let (ready, said) = pod.ready();
    assert!(ready && said.contains("failed to authenticate") && !said.contains("hush"), "{said}");
    // Before the server was ever seen in order, a closed door proves nothing.
    fs::remove_file(pod.path("run/knows-all-slots")).expect("should be there");
    assert!(!pod.ready().0);
    tell(&connection, "ACL SETUSER _agent >hush-next").await;
    assert_eq!(pod.ready(), (true, String::new()));
}
