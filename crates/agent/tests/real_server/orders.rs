//! What the operator has an agent do at its server, and what nobody can.

use std::fs;

use channel::AskError;
use pki::Role as Part;
use proto::agent::{LONGEST, LoadUsersReply, Loading, Setting};
use tonic::Code;
use valkey::Connection;
use valkey::client::Value;
use valkey::testing::Release;

use crate::support::caller::Caller;
use crate::support::operator::{authority, identity};
use crate::support::sidecar::{pod, refusals, said_in_the_log};

/// No log may have it.
const SECRET: &str = "hunter2 \"with\" quotes";

async fn value(connection: &Connection, name: &str) -> String {
    connection.config_get(&[name]).await.unwrap().remove(name).unwrap()
}

/// How often the server ran this.
async fn calls(connection: &Connection, command: &str) -> u64 {
    let stats = connection.info_all().await.unwrap();
    let calls = stats.get(&format!("cmdstat_{command}")).and_then(|stats| stats.split([',', '=']).nth(1));
    calls.map_or(0, |calls| calls.parse().unwrap())
}

async fn knows(connection: &Connection, user: &str) -> bool {
    connection.raw(&["ACL", "GETUSER", user]).await.unwrap() != Value::Nil
}

#[tokio::test]
async fn directives_are_set_all_or_none_and_the_servers_words_come_back() {
    for release in Release::ALL {
        let authority = authority();
        let (mut pod, sidecar) = pod(release, &authority).await;
        let connection = pod.connect().await;
        let operator = Caller::new(&authority, identity(Part::Operator, None));
        let set = async |directives: &[(&str, &str)]| {
            let reply = operator.set(sidecar.grpc, directives).await.unwrap();
            (reply.setting(), reply.words)
        };
        let taken = set(&[("maxmemory", "100mb"), ("primaryauth", SECRET), ("hz", "20")]).await;
        assert_eq!(taken, (Setting::Taken, String::new()));
        assert_eq!(value(&connection, "maxmemory").await, "104857600");
        assert_eq!(value(&connection, "primaryauth").await, SECRET);

        let wrong = [("hz", "30"), ("maxmemory", "lots"), ("primaryauth", "hunter3")];
        let directly = connection.config_set(&wrong).await.expect_err("should refuse");
        let (setting, words) = set(&wrong).await;
        assert_eq!((setting, words.as_str()), (Setting::Refused, directly.server_message().unwrap()));
        assert_eq!(value(&connection, "hz").await, "20");

        // Whatever the server would say to it.
        let before = calls(&connection, "config|set").await;
        let directory = value(&connection, "dir").await;
        for name in ["dir", "Port", "aclfile", "enable-debug-command", "unixsocket", "tls-ca-cert-file"] {
            let (setting, words) = set(&[("hz", "40"), (name, "/tmp")]).await;
            assert_eq!(setting, Setting::NotAllowed, "{name}");
            assert!(words.contains(name), "{words}");
        }
        assert_eq!(calls(&connection, "config|set").await, before, "the server should not even be asked");
        assert_eq!(
            (value(&connection, "dir").await, value(&connection, "hz").await),
            (directory, "20".into())
        );

        let too_much = "x".repeat(LONGEST);
        let error =
            operator.set(sidecar.grpc, &[("primaryauth", &too_much)]).await.expect_err("should be too long");
        assert!(
            matches!(&error, AskError::Answer { source, .. } if source.code() == Code::OutOfRange),
            "{error:?}"
        );

        pod.crash();
        let (setting, words) = set(&[("primaryauth", SECRET)]).await;
        assert_eq!(setting, Setting::Failed, "{words}");
        assert!(words.contains("failed to connect"), "{words}");

        let log = said_in_the_log(&pod);
        assert!(log.contains("told by the operator to set maxmemory, primaryauth, hz: taken\n"), "{log}");
        assert!(log.contains("to set hz, maxmemory, primaryauth: the server refused\n"), "{log}");
        assert!(log.contains("refused to set directives: the directive dir is not set"), "{log}");
        assert!(!log.contains("hunter") && !log.contains("xxxx"), "{log}");
    }
}

/// The agent stops the writes of a primary that may have been replaced, by a directive that specs may hold.
#[tokio::test]
async fn writes_that_were_stopped_are_not_let_go_by_an_order() {
    for release in Release::ALL {
        let authority = authority();
        let (pod, sidecar) = pod(release, &authority).await;
        let connection = pod.connect().await;
        let operator = Caller::new(&authority, identity(Part::Operator, None));
        let never = "2147483647";
        // With a doubt that the probe has to clear up; otherwise the agent lets go what it has not stopped itself, a moment later.
        fs::write(pod.path("run/writes-held"), "0 10\nx\n").unwrap();
        connection.config_set(&[("min-replicas-to-write", never)]).await.unwrap();
        for name in ["min-replicas-to-write", "Min-Slaves-Max-Lag"] {
            let reply = operator.set(sidecar.grpc, &[("hz", "33"), (name, "0")]).await.unwrap();
            assert_eq!(reply.setting(), Setting::Failed, "{name}");
            assert!(reply.words.contains("takes no write just now"), "{}", reply.words);
        }
        assert_eq!(value(&connection, "min-replicas-to-write").await, never);
        connection.config_set(&[("min-replicas-to-write", "0")]).await.unwrap();
        let reply = operator.set(sidecar.grpc, &[("min-replicas-to-write", "1")]).await.unwrap();
        assert_eq!(reply.setting(), Setting::Taken);
    }
}

#[tokio::test]
async fn nobody_but_the_operator_gives_orders() {
    let authority = authority();
    let (pod, sidecar) = pod(Release::ALL[0], &authority).await;
    let connection = pod.connect().await;
    let before = value(&connection, "hz").await;
    pod.write_users("user bob on nopass +ping");
    let agent = Caller::new(&authority, identity(Part::Sidecar, Some("valkey-cache-0-1-0")));
    for _ in 0..2 {
        let set = agent.set(sidecar.grpc, &[("hz", "77"), ("primaryauth", SECRET)]).await.map(drop);
        let loaded = agent.load_users(sidecar.grpc).await.map(drop);
        for error in [set, loaded].map(Result::unwrap_err) {
            let AskError::Answer { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(source.code(), Code::PermissionDenied, "{error:?}");
            assert!(!error.is_unheard());
        }
    }
    assert_eq!(refusals(&sidecar, "notTheOperator").await, 4);
    assert_eq!(value(&connection, "hz").await, before);
    assert!(!knows(&connection, "bob").await);
    let log = said_in_the_log(&pod);
    // Once a minute is enough.
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("for the operator")).collect();
    let [line] = lines.as_slice() else { panic!("{log}") };
    assert!(line.contains("/sidecar/valkey-cache-0-1-0 at 127.0.0.1 was refused SetDirectives"), "{line}");
    assert!(!log.contains("hunter"), "{log}");
}

#[tokio::test]
async fn the_users_file_is_loaded_when_the_operator_says_so() {
    for release in Release::ALL {
        let authority = authority();
        let (pod, sidecar) = pod(release, &authority).await;
        let connection = pod.connect().await;
        let operator = Caller::new(&authority, identity(Part::Operator, None));
        let load = async || {
            let reply: LoadUsersReply = operator.load_users(sidecar.grpc).await.unwrap();
            (reply.loading(), reply.words)
        };
        assert_eq!(load().await.0, Loading::Already, "the server started with this file");
        pod.write_users("user bob on nopass +ping");
        assert_eq!(load().await, (Loading::Done, String::new()));
        assert!(knows(&connection, "bob").await);
        assert_eq!(load().await.0, Loading::Already);
        // The probe and the sidecar know of each other's work.
        pod.ready();
        assert_eq!(calls(&connection, "acl|load").await, 1);

        pod.write_users("user eve on nopass +nonsense");
        for _ in 0..2 {
            let (loading, words) = load().await;
            assert_eq!(loading, Loading::Refused);
            assert!(words.contains("Error in applying operation '+nonsense'"), "{words}");
        }
        assert!(knows(&connection, "bob").await && !knows(&connection, "eve").await);
        pod.ready();
        assert_eq!(calls(&connection, "acl|load").await, 2, "what was refused is not offered again");

        // It would not refuse this one but crash.
        pod.write_users("user eve on nopass +ping (~x +get");
        assert_eq!(load().await, (Loading::Refused, "a selector in line 4 is not closed".to_owned()));
        assert_eq!(calls(&connection, "acl|load").await, 2);

        fs::remove_file(pod.path("users.acl")).unwrap();
        assert_eq!(load().await.0, Loading::NoFile);
    }
}
