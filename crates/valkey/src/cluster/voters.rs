//! Who has a say in whether a primary goes on: itself, some of the agents beside other servers, and the operator where their number
//! would be even. Everybody finds the same ones in the same table. Pure.

use std::net::IpAddr;

use super::{ClusterNodes, Flag, Node};

/// So many replicas at most: each of them is asked again and again, for every primary.
const REPLICAS: usize = 4;
/// So many others at most beside a single replica: a machine that takes it along must not take most of them.
const BESIDE_ONE: usize = 5;

/// A server, beside which an agent has a say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voter {
    /// What the cluster calls it.
    pub node_id: String,
    /// Where it is.
    pub ip: IpAddr,
    /// Of the server.
    pub port: u16,
}

impl Voter {
    fn of(node: &Node) -> Option<Self> {
        let ip = node.address.ip.parse().ok()?;
        Some(Self { node_id: node.id.clone(), ip, port: client_port(node) })
    }
}

/// A server that speaks TLS only has its port elsewhere.
fn client_port(node: &Node) -> u16 {
    let of_tls = || node.address.auxiliary.get("tls-port").and_then(|port| port.parse().ok());
    if node.address.port > 0 { node.address.port } else { of_tls().unwrap_or_default() }
}

/// Those who have a say about one primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voters {
    /// Itself.
    pub primary: Voter,
    /// Of its claim.
    pub config_epoch: u64,
    /// Besides the primary's own agent.
    pub others: Vec<Voter>,
    /// Those of them whose servers follow the primary.
    pub followers: usize,
    /// Whether the operator has a say too.
    pub operator: bool,
}

impl Voters {
    /// Nobody has to be asked about a server that leads nothing, or that nobody could replace.
    #[must_use]
    pub fn of(table: &ClusterNodes, primary: &str) -> Option<Self> {
        let primary = table.get(primary).filter(|node| node.is_primary() && !node.slots.is_empty())?;
        let is_known = |node: &&Node| {
            node.id != primary.id
                && !node.flags.contains(&Flag::Handshake)
                && !node.flags.contains(&Flag::NoAddress)
        };
        let mut others: Vec<&Node> = table.nodes.iter().filter(is_known).collect();
        // Who could replace it has to be among them; of the others those behind it, so that not everybody asks the same ones.
        others.sort_by_key(|node| (!node.follows(primary), node.id < primary.id, node.id.clone()));
        let followers = others.iter().filter(|node| node.follows(primary)).count();
        // Several replicas are on several machines, as far as there are any; others might share one with most of them.
        let most = if followers > 1 { followers.min(REPLICAS) } else { BESIDE_ONE };
        let others: Vec<Voter> = others.into_iter().filter_map(Voter::of).take(most).collect();
        let followers = followers.min(others.len());
        if followers == 0 || others.is_empty() {
            return None;
        }
        let operator = (others.len() + 1).is_multiple_of(2);
        let config_epoch = primary.config_epoch;
        Some(Self { primary: Voter::of(primary)?, config_epoch, others, followers, operator })
    }

    /// So many are more than half of all.
    #[must_use]
    pub fn majority(&self) -> usize {
        (1 + self.others.len() + usize::from(self.operator)) / 2 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    fn names(voters: &Voters) -> Vec<&str> {
        voters.others.iter().map(|member| member.node_id.as_str()).collect()
    }

    #[test]
    fn the_number_of_voters_is_odd_and_never_large() {
        for (shards, replicas, others, operator, majority) in [
            (1, 1, 1, true, 2),
            (1, 2, 2, false, 2),
            (2, 1, 3, true, 3),
            (3, 1, 5, true, 4),
            (3, 2, 2, false, 2),
            (3, 3, 3, true, 3),
            (3, 9, 4, false, 3),
            (50, 1, 5, true, 4),
        ] {
            let voters = Voters::of(&table(shards, replicas), "p0").expect("should have voters");
            assert_eq!(
                (voters.others.len(), voters.operator, voters.majority()),
                (others, operator, majority),
                "{shards}×{replicas}"
            );
            assert_eq!(voters.followers, replicas.min(others));
        }
    }

    #[test]
    fn those_who_follow_come_first_and_then_those_behind_it() {
        let table = table(6, 1);
        let voters = |id| Voters::of(&table, id).expect("should have voters");
        assert_eq!(names(&voters("p0")), ["p0r0", "p1", "p1r0", "p2", "p2r0"]);
        assert_eq!(names(&voters("p4")), ["p4r0", "p5", "p5r0", "p0", "p0r0"]);
    }

    #[test]
    fn a_server_that_nobody_could_replace_asks_nobody() {
        assert_eq!(Voters::of(&table(3, 0), "p0"), None);
        assert_eq!(Voters::of(&table(3, 1), "p0r0"), None);
        assert_eq!(Voters::of(&table(3, 1), "x"), None);
        let slotless = "p0 10.0.0.1:6379@16379 master - 0 0 0 connected\np0r0 10.0.0.2:6379@16379 slave p0 0 0 0 connected\n";
        assert_eq!(Voters::of(&ClusterNodes::parse(slotless), "p0"), None);
    }

    #[test]
    fn whoever_only_shakes_hands_or_has_no_address_has_no_say() {
        let text = "p0 10.0.0.1:6379@16379 master - 0 0 0 connected 0-16383\n\
                    p0r0 10.0.0.2:0@16379,,tls-port=6380 slave p0 0 0 0 connected\n\
                    x 10.0.0.3:6379@16379 handshake - 0 0 0 connected\n\
                    y :0@0 master,noaddr - 0 0 0 disconnected\n\
                    z 10.0.0.4:6379@16379 slave,fail p0 0 0 0 disconnected\n";
        let voters = Voters::of(&ClusterNodes::parse(text), "p0").expect("should have voters");
        // Who is gone counts until it is struck out: others may not know yet.
        assert_eq!((names(&voters), voters.operator), (vec!["p0r0", "z"], false));
        assert_eq!(voters.others[0].port, 6380);
    }
}
