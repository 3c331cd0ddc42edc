//! What a server that died leaves behind: whether there is anything to take over, and who could. Pure.

use std::net::IpAddr;

use proto::heartbeat::Server;

use valkey::cluster::Node;
use valkey::info::ReplicaLine;

use super::standing::Standing;
use crate::hold::copies;

/// A primary that is dead for certain, as it was when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Death {
    pub(super) node_id: String,
    pub(super) config_epoch: u64,
    pub(super) run_id: String,
    /// The name of its history: positions of its replicas compare under this one only.
    pub(super) replication_id: String,
    pub(super) replicas: Vec<Replica>,
}

/// Somebody who followed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) node_id: String,
    pub(super) ip: IpAddr,
    /// Of its server.
    pub(super) port: u16,
}

impl Death {
    /// What is to be taken over; nothing, if the server led nothing, or nobody followed it.
    pub(crate) fn of(server: &Server, run_id: &str) -> Option<Self> {
        let standing = Standing::read(&server.info, &server.cluster_nodes)?;
        let myself = standing.myself()?;
        if !standing.leads() || myself.slots.is_empty() {
            return None;
        }
        // Who received every write as it happened; others lack some that were acknowledged.
        let is_online = |node: &&Node| copies(&standing.replication, node, ReplicaLine::is_online);
        let followers = standing.table.nodes.iter().filter(|node| node.follows(myself) && !node.has_failed());
        let followers = followers.filter(is_online);
        let replicas: Vec<Replica> = followers
            .filter_map(|node| {
                let ip = node.address.ip.parse().ok()?;
                Some(Replica { node_id: node.id.clone(), ip, port: node.address.port })
            })
            .collect();
        (!replicas.is_empty()).then(|| Self {
            node_id: myself.id.clone(),
            config_epoch: myself.config_epoch,
            run_id: run_id.to_owned(),
            replication_id: standing.replication.replication_id.clone().unwrap_or_default(),
            replicas,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "role:master\r\nmaster_replid:history\r\nmaster_repl_offset:5\r\n\
                        slave0:ip=10.0.0.2,port=6379,state=online,offset=5,lag=0\r\n\
                        slave1:ip=fd00::3,port=6379,state=online,offset=5,lag=0\r\n";
    const NODES: &str = "me 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-5460\n\
                         r1 10.0.0.2:6379@16379 slave me 0 0 7 connected\n\
                         r2 fd00::3:6379@16379 slave me 0 0 7 connected\n\
                         r3 10.0.0.4:6379@16379 slave,fail me 0 0 7 disconnected\n\
                         r4 :0@0 slave,noaddr me 0 0 7 disconnected\n\
                         p2 10.0.0.5:6379@16379 master - 0 0 8 connected 5461-16383\n\
                         r5 10.0.0.6:6379@16379 slave p2 0 0 8 connected\n";

    fn death(info: &str, nodes: &str) -> Option<Death> {
        let server = Server { info: info.to_owned(), cluster_nodes: nodes.to_owned(), ..Server::default() };
        Death::of(&server, "run")
    }

    #[test]
    fn a_primary_leaves_its_slots_to_those_who_followed_it() {
        let replica = |id: &str, ip: &str| Replica {
            node_id: id.to_owned(),
            ip: ip.parse().expect("should be an address"),
            port: 6379,
        };
        assert_eq!(
            death(INFO, NODES),
            Some(Death {
                node_id: "me".to_owned(),
                config_epoch: 7,
                run_id: "run".to_owned(),
                replication_id: "history".to_owned(),
                replicas: vec![replica("r1", "10.0.0.2"), replica("r2", "fd00::3")],
            })
        );
    }

    #[test]
    fn others_leave_nothing() {
        for (what, info, nodes) in [
            (
                "a replica",
                INFO.replace("master\r", "slave\r"),
                NODES.replace("myself,master -", "myself,slave p2"),
            ),
            ("one that becomes a replica", INFO.replace("role:master", "role:slave"), NODES.to_owned()),
            ("a primary without slots", INFO.to_owned(), NODES.replace(" 0-5460", "")),
            ("a primary without replicas", INFO.to_owned(), NODES.replace(" me 0", " p2 0")),
            ("a primary whose replicas have lost it", INFO.replace("slave", "nobody"), NODES.to_owned()),
            (
                "a primary whose replicas get their first copy",
                INFO.replace("online", "send_bulk"),
                NODES.to_owned(),
            ),
            ("one that was not seen", String::new(), String::new()),
        ] {
            assert_eq!(death(&info, &nodes), None, "{what}");
        }
    }
}
