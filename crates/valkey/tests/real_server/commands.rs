//! The everyday commands, and what a server tells of itself.

use valkey::client::{Section, Shutdown, Value};
use valkey::testing::Release;
use valkey::{Error, Support, Target};

use crate::support::{connect, eventually, open, start};

#[tokio::test]
async fn a_server_says_who_it_is() {
    for release in Release::ALL {
        let server = start(release, "");
        let connection = open(&server).await;
        connection.ping().await.expect("should answer");

        let info = connection.info(&[Section::Server, Section::Cluster]).await.expect("should answer");
        let about = info.server();
        let version = about.version.expect("should have a version");
        let expected = release.version();
        assert_eq!((version.major, version.minor), (expected.major, expected.minor));
        assert!(about.is_valkey && about.run_id.is_some_and(|id| id.len() == 40));
        assert_eq!(about.tcp_port, Some(server.port()));
        assert_eq!(Support::of(&info.server()), Support::Supported);
        assert!(!info.cluster_enabled() && info.replication().is_none(), "only what was asked for");

        let info = connection.info_all().await.expect("should answer");
        let persistence = info.persistence();
        assert!(!info.loading() && persistence.rdb_last_save_ok && !persistence.aof_enabled);
        assert!(info.used_memory().is_some_and(|bytes| bytes > 0));
    }
}

#[tokio::test]
async fn a_unix_socket_is_as_good_as_a_port() {
    for release in Release::ALL {
        let server = start(release, "");
        let connection = connect(Target::unix(server.socket())).await.expect("should let us in");
        connection.ping().await.expect("should answer");
        assert_eq!(connection.endpoint(), server.socket().display().to_string());
    }
}

#[tokio::test]
async fn several_tasks_share_a_connection() {
    for release in Release::ALL {
        let server = start(release, "");
        let connection = open(&server).await;
        let (first, second, third) = tokio::join!(
            connection.raw(&["ECHO", "one"]),
            connection.info(&[Section::Server]),
            connection.raw(&["ECHO", "three"]),
        );
        assert_eq!(first.expect("should answer"), Value::BulkString(b"one".to_vec()));
        assert!(second.expect("should answer").server().is_valkey);
        assert_eq!(third.expect("should answer"), Value::BulkString(b"three".to_vec()));
    }
}

#[tokio::test]
async fn what_the_server_says_is_kept() {
    for release in Release::ALL {
        let server = start(release, "");
        let connection = open(&server).await;
        let error = connection.cluster_nodes().await.expect_err("should refuse");
        assert!(
            matches!(&error, Error::Server { code, message, .. } if code == "ERR" && message.contains("cluster support disabled")),
            "{error:?}"
        );
        assert!(!error.is_transient() && error.to_string().contains(&server.port().to_string()));
        connection.ping().await.expect("should go on after a refusal");
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_does_not_answer() {
    for release in Release::ALL {
        let mut server = start(release, "");
        let connection = open(&server).await;
        connection.shutdown(Shutdown::NoSave).await.expect("should obey");
        eventually("the process ends", || std::future::ready((!server.is_running()).then_some(()))).await;
        let error = connection.ping().await.expect_err("should be gone");
        assert!(matches!(error, Error::Disconnected { .. }) && error.is_transient(), "{error:?}");
    }
}

#[tokio::test]
async fn the_servers_side_sees_a_dropped_connection_go() {
    for release in Release::ALL {
        let server = start(release, "");
        let (stays, goes) = (open(&server).await, open(&server).await);
        goes.ping().await.expect("should answer");
        let clients = async || {
            stays.info(&[Section::Clients]).await.expect("should answer").number::<u32>("connected_clients")
        };
        assert_eq!(clients().await, Some(2));
        drop(goes);
        eventually("the connection closes", || async { (clients().await == Some(1)).then_some(()) }).await;
    }
}
