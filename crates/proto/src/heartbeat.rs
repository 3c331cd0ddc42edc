//! What an agent tells the operator, by HTTP/1.1 with JSON in both directions: a heartbeat now and then, and at once what cannot
//! wait. What the agent sees of its server goes with a heartbeat only if the operator has not got it yet: a heartbeat of a pod in
//! which nothing happens is a few numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Where heartbeats go.
pub const HEARTBEAT: &str = "/v1/heartbeat";
/// Where events go.
pub const EVENTS: &str = "/v1/events";
/// No message is longer, in bytes. A report of four hundred nodes and a hundred users fits; the operator asks larger clusters itself,
/// because what it would keep grows with the square of their size.
pub const LONGEST: usize = 128 * 1024;

/// Who speaks, and for which time: a message that was heard before is not heard again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// The pod's uid. A pod that comes back under its old name is another one.
    pub pod_uid: String,
    /// Chosen at random by each run of an agent.
    pub session: u32,
    /// Grows with every message of a session.
    pub sequence: u64,
}

/// `POST /v1/heartbeat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// Who speaks.
    pub stamp: Stamp,
    /// Counts what was seen to change. The operator has what this agent saw if it has a report of this number.
    pub revision: u64,
    /// What is seen, if the operator may not have it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
}

/// `POST /v1/events`: something that cannot wait for the next heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Happened {
    /// Who speaks.
    pub stamp: Stamp,
    /// What happened.
    pub event: Event,
    /// Counts what was seen to change, this included.
    pub revision: u64,
    /// What is seen since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// The server ended. Nobody listens on its socket any more, so it is dead for certain.
    ServerDied {
        /// The run of the server that ended.
        run_id: String,
    },
    /// The server's primary was not heard of for too long: the operator is asked whether it may be replaced.
    PrimaryMissed {
        /// Its identity in the cluster.
        node_id: String,
        /// Where its server is.
        ip: IpAddr,
        /// And on which port.
        port: u16,
    },
    /// Something that a newer agent tells of.
    #[serde(other)]
    Unknown,
}

/// What an agent sees of its pod.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The agent's version.
    pub agent: String,
    /// It sets directives of its server when the operator tells it to.
    #[serde(default)]
    pub sets_directives: bool,
    /// The server.
    pub server: ServerState,
    /// The users file.
    #[serde(default)]
    pub users: UsersFile,
}

/// It holds hashes of passwords.
impl fmt::Debug for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = match &self.server {
            ServerState::Starting => "starting",
            ServerState::Loading => "loading",
            ServerState::Up(_) => "up",
            ServerState::Silent => "silent",
            ServerState::Locked => "locked",
            ServerState::Down => "down",
            ServerState::Unknown => "unknown",
        };
        formatter.debug_struct("Report").field("server", &server).finish_non_exhaustive()
    }
}

/// How a server is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum ServerState {
    /// None was started in this pod yet, or it does not listen yet.
    Starting,
    /// It reads its data.
    Loading,
    /// It answers.
    Up(Box<Server>),
    /// It listens, and does not answer.
    Silent,
    /// It answers, and does not let its agent look: it may serve all the same.
    Locked,
    /// It ended, and no other was started yet.
    Down,
    /// Something that a newer agent tells of.
    #[serde(other)]
    Unknown,
}

/// What a server answers, in its own words: whoever asked it directly would have got the same.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// The sections `server`, `replication`, `persistence` and `keyspace` of INFO.
    pub info: String,
    /// CLUSTER INFO.
    pub cluster_info: String,
    /// CLUSTER NODES.
    pub cluster_nodes: String,
    /// ACL LIST, line by line.
    pub users: Vec<String>,
    /// Directives of the pod's configuration file, as the server has them.
    pub config: BTreeMap<String, String>,
    /// SHA-256 of the password that it shows its primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_password: Option<String>,
}

/// What became of the users file that Kubernetes brought into the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsersFile {
    /// SHA-256 of the one that the server loaded last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<String>,
    /// Why the server refused the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What the operator answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// What to do.
    #[serde(default)]
    pub answer: Answer,
    /// The operator has no report of this revision: the next message should have one, and need not wait.
    #[serde(default)]
    pub wants_report: bool,
    /// The primary that is missed may be replaced.
    #[serde(default, skip_serializing_if = "is_false")]
    pub agrees: bool,
    /// Somebody was agreed to a moment ago who is to replace the server of this agent: it must not lead on at the operator's word.
    #[serde(default, skip_serializing_if = "is_false")]
    pub objects: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// What an agent is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// Nothing.
    #[default]
    Ok,
    /// Something that a newer operator asks for.
    #[serde(other)]
    Unknown,
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    /// In words for people.
    pub error: String,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn stamp() -> Stamp {
        Stamp { pod_uid: "7c1e".to_owned(), session: u32::MAX, sequence: 7 }
    }

    fn report() -> Report {
        Report {
            agent: "0.1.0".to_owned(),
            sets_directives: true,
            server: ServerState::Up(Box::new(Server {
                info: "run_id:1\r\n".to_owned(),
                users: vec!["user _agent on #secret".to_owned()],
                ..Server::default()
            })),
            users: UsersFile::default(),
        }
    }

    #[test]
    fn the_contract_is_what_it_was() {
        let heartbeat = Heartbeat { stamp: stamp(), revision: 3, report: Some(report()) };
        let event = Event::ServerDied { run_id: "9f".to_owned() };
        let happened = Happened { stamp: stamp(), event, revision: 4, report: None };
        insta::assert_json_snapshot!("heartbeat", heartbeat);
        insta::assert_json_snapshot!("happened", happened);
        let event =
            Event::PrimaryMissed { node_id: "07".to_owned(), ip: "10.0.0.1".parse().unwrap(), port: 6379 };
        assert_eq!(
            serde_json::to_value(event).unwrap(),
            json!({"kind": "primaryMissed", "nodeId": "07", "ip": "10.0.0.1", "port": 6379})
        );
        insta::assert_json_snapshot!("reply", Reply { wants_report: true, ..Reply::default() });
    }

    #[test]
    fn what_a_newer_one_says_is_understood_as_far_as_it_goes() {
        let heartbeat: Heartbeat = serde_json::from_value(json!({
            "stamp": {"podUid": "7c1e", "session": u32::MAX, "sequence": 7, "mood": "good"},
            "revision": 3,
            "report": {"agent": "9.9.9", "server": {"state": "dreaming", "depth": 3}, "weather": "fine"},
        }))
        .unwrap();
        assert_eq!(heartbeat.stamp, stamp());
        let report = heartbeat.report.unwrap();
        assert!(report.server == ServerState::Unknown && !report.sets_directives);
        let event: Event = serde_json::from_value(json!({"kind": "tookANap", "minutes": 4})).unwrap();
        assert_eq!(event, Event::Unknown);
        let reply: Reply =
            serde_json::from_value(json!({"answer": "stayConnected", "for": "a while"})).unwrap();
        assert_eq!(reply, Reply { answer: Answer::Unknown, ..Reply::default() });
        assert_eq!(serde_json::from_str::<Reply>("{}").unwrap(), Reply::default());
    }

    #[test]
    fn no_password_is_shown_by_accident() {
        let heartbeat = Heartbeat { stamp: stamp(), revision: 3, report: Some(report()) };
        assert!(!format!("{heartbeat:?}").contains("secret"), "{heartbeat:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            let _ = serde_json::from_slice::<Heartbeat>(&bytes);
            let _ = serde_json::from_slice::<Happened>(&bytes);
        }
    }
}
