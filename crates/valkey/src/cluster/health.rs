//! CLUSTER INFO: whether the cluster is well, as one node sees it.

use crate::Info;

/// The state of the cluster in the eyes of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterHealth {
    /// The node serves. It may do so although slots are missing: see `slots_ok`.
    pub state_ok: bool,
    /// Slots that have an owner.
    pub slots_assigned: u16,
    /// Slots whose owner is reached.
    pub slots_ok: u16,
    /// Slots whose owner this node cannot reach.
    pub slots_pfail: u16,
    /// Slots whose owner a majority cannot reach.
    pub slots_fail: u16,
    /// Nodes in the table, those in handshake among them.
    pub known_nodes: u32,
    /// Primaries that own slots.
    pub size: u32,
    /// The greatest epoch the node has heard of.
    pub current_epoch: u64,
    /// The epoch of the node's own claim to slots, or of its primary's.
    pub my_epoch: u64,
}

impl ClusterHealth {
    /// Reads a reply; `None` where a field is missing, because a guess here would pass for a fact.
    pub fn read(info: &Info) -> Option<Self> {
        Some(Self {
            state_ok: info.get("cluster_state")?.trim() == "ok",
            slots_assigned: info.number("cluster_slots_assigned")?,
            slots_ok: info.number("cluster_slots_ok")?,
            slots_pfail: info.number("cluster_slots_pfail")?,
            slots_fail: info.number("cluster_slots_fail")?,
            known_nodes: info.number("cluster_known_nodes")?,
            size: info.number("cluster_size")?,
            current_epoch: info.number("cluster_current_epoch")?,
            my_epoch: info.number("cluster_my_epoch")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &str = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:10923\r\n\
        cluster_slots_pfail:5000\r\ncluster_slots_fail:461\r\ncluster_known_nodes:6\r\ncluster_size:3\r\n\
        cluster_current_epoch:7\r\ncluster_my_epoch:2\r\ncluster_stats_messages_sent:7\r\n";

    #[test]
    fn reads_every_field() {
        let expected = ClusterHealth {
            state_ok: true,
            slots_assigned: 16384,
            slots_ok: 10923,
            slots_pfail: 5000,
            slots_fail: 461,
            known_nodes: 6,
            size: 3,
            current_epoch: 7,
            my_epoch: 2,
        };
        assert_eq!(ClusterHealth::read(&Info::parse(REPLY)), Some(expected));
        let failed = REPLY.replace("state:ok", "state:fail");
        assert_eq!(
            ClusterHealth::read(&Info::parse(&failed)),
            Some(ClusterHealth { state_ok: false, ..expected })
        );
    }

    #[test]
    fn what_is_missing_is_not_guessed() {
        for line in REPLY.lines().filter(|line| !line.contains("stats")) {
            let without = REPLY.replace(line, "");
            assert_eq!(ClusterHealth::read(&Info::parse(&without)), None, "without {line}");
        }
        let absurd = REPLY.replace("ok:10923", "ok:70000");
        assert_eq!(ClusterHealth::read(&Info::parse(&absurd)), None);
    }
}
