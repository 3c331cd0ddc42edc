//! What a server is in its shard at one moment, as far as a takeover depends on it. Pure.

use proto::agent::{LookReply, Role};
use valkey::Info;
use valkey::cluster::{ClusterNodes, Node};
use valkey::info::{PrimaryLink, Replication, ReplicationRole};

/// A primary died a moment ago, so whoever followed it lost it a moment ago, in seconds. One that lost it earlier lacks what was
/// acknowledged since.
const FOLLOWED_WITHIN: u64 = 5;

/// What a server is.
pub(crate) struct Standing {
    pub(super) table: ClusterNodes,
    pub(super) replication: Replication,
}

impl Standing {
    /// From INFO and CLUSTER NODES; nothing, if the server is still reading its data, does not say what it is, or became something
    /// else between the two answers.
    pub(crate) fn read(info: &str, cluster_nodes: &str) -> Option<Self> {
        let info = Info::parse(info);
        if info.loading() {
            return None;
        }
        let table = ClusterNodes::parse(cluster_nodes);
        let replication = info.replication()?;
        let is_primary = replication.role == ReplicationRole::Primary;
        (table.myself()?.is_primary() == is_primary).then_some(Self { table, replication })
    }

    pub(super) fn myself(&self) -> Option<&Node> {
        self.table.myself()
    }

    pub(super) fn leads(&self) -> bool {
        self.replication.role == ReplicationRole::Primary
    }

    /// The primary that it follows.
    pub(super) fn primary_id(&self) -> Option<&str> {
        let myself = self.myself().filter(|myself| myself.is_replica())?;
        myself.primary_id.as_deref()
    }

    pub(super) fn link_up(&self) -> bool {
        self.replication.primary.as_ref().is_some_and(|link| link.link_up)
    }

    /// Whether it holds everything that its primary had sent, until a moment ago.
    pub(super) fn copy_whole(&self) -> bool {
        let whole = |link: &PrimaryLink| link.holds_copy() && link.was_up_within(FOLLOWED_WITHIN);
        self.replication.primary.as_ref().is_some_and(whole)
    }

    /// The same for others.
    pub(crate) fn told(&self) -> LookReply {
        let Some(myself) = self.myself() else { return LookReply::default() };
        let replication = &self.replication;
        let leads = self.leads();
        let offset = match &replication.primary {
            Some(link) if !leads => link.offset,
            _ => replication.offset,
        };
        LookReply {
            role: if leads { Role::Primary } else { Role::Replica }.into(),
            node_id: myself.id.clone(),
            primary_id: self.primary_id().unwrap_or_default().to_owned(),
            config_epoch: myself.config_epoch,
            replication_id: replication.replication_id.clone().unwrap_or_default(),
            offset: offset.unwrap_or_default(),
            link_up: self.link_up(),
            copy_whole: self.copy_whole(),
            slots: valkey::slots::count(&myself.slots),
            port: u32::from(myself.address.port),
            bus_port: u32::from(myself.address.bus_port.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const DEAD: &str = "dead";

    /// A replica of a primary that died, in a cluster of so many shards.
    pub(crate) fn replica(shards: usize) -> (String, String) {
        let info = "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:down\r\n\
                    master_sync_in_progress:0\r\nslave_repl_offset:100\r\nmaster_link_down_since_seconds:0\r\n\
                    master_replid:history\r\nmaster_repl_offset:100\r\n";
        let others: String = (1..shards)
            .map(|shard| {
                format!("p{shard} 10.0.1.{shard}:6379@16379 master - 0 0 {shard} connected {shard}\n")
            })
            .collect();
        let nodes = format!(
            "{DEAD} 10.0.0.1:6379@16379,valkey-cache-0-0.team.svc master - 0 0 7 connected 0 5-9\n\
             me 10.0.0.2:6379@16379,valkey-cache-0-1.team.svc myself,slave {DEAD} 0 0 7 connected\n{others}"
        );
        (info.to_owned(), nodes)
    }

    pub(crate) fn standing(info: &str, nodes: &str) -> Standing {
        Standing::read(info, nodes).expect("should be readable")
    }

    #[test]
    fn a_copy_is_whole_once_it_was_in_sync_and_is_no_more_when_another_one_begins() {
        let (info, nodes) = replica(3);
        for (what, from, to, whole) in [
            ("the link broke a moment ago", "", "", true),
            ("the link is up", "link_status:down", "link_status:up", true),
            ("the link was never up", "since_seconds:0", "since_seconds:-1", false),
            ("the link broke seconds ago", "since_seconds:0", "since_seconds:5", true),
            ("the link broke earlier", "since_seconds:0", "since_seconds:6", false),
            ("another copy comes in", "in_progress:0", "in_progress:1", false),
            ("a copy broke off", "repl_offset:100", "repl_offset:1", false),
            ("there is no position", "slave_repl_offset", "nothing", false),
        ] {
            let standing = standing(&info.replace(from, to), &nodes);
            assert_eq!(standing.copy_whole(), whole, "{what}");
        }
    }

    #[test]
    fn others_are_told_what_they_need() {
        let (info, nodes) = replica(3);
        assert_eq!(
            standing(&info, &nodes).told(),
            LookReply {
                role: Role::Replica.into(),
                node_id: "me".to_owned(),
                primary_id: DEAD.to_owned(),
                config_epoch: 7,
                replication_id: "history".to_owned(),
                offset: 100,
                link_up: false,
                copy_whole: true,
                slots: 0,
                port: 6379,
                bus_port: 16379,
            }
        );
        let primary = "role:master\r\nmaster_replid:new\r\nmaster_repl_offset:120\r\n";
        let nodes = "me 10.0.0.2:6379@16379 myself,master - 0 0 8 connected 0 5-9\n";
        let told = standing(primary, nodes).told();
        assert_eq!((told.role(), told.config_epoch, told.slots), (Role::Primary, 8, 6));
        assert_eq!((told.offset, told.copy_whole, told.primary_id.as_str()), (120, false, ""));
    }

    #[test]
    fn a_server_that_reads_its_data_or_changes_is_nothing_yet() {
        let (info, nodes) = replica(3);
        assert!(Standing::read(&info.replace("role:slave", "role:master"), &nodes).is_none());
        assert!(Standing::read(&format!("{info}loading:1\r\n"), &nodes).is_none());
        assert!(Standing::read(&info, "").is_none());
        assert!(Standing::read("", &nodes).is_none());
    }
}
