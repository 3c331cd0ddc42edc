//! Writes that are held back. A server that comes back as a primary cannot know whether a replica took over in its last
//! moment. Whoever did so would throw away what this server acknowledges, so that it acknowledges nothing before that is
//! cleared up. The reasons are in `docs/adr/0012-a-primary-that-is-back-waits-for-its-replicas.md`.

use std::fmt;
use std::net::IpAddr;

use valkey::Connection;
use valkey::cluster::{ClusterNodes, Node};
use valkey::info::{ReplicaLine, Replication};

/// How many replicas have to follow before a write is taken.
const TO_WRITE: &str = "min-replicas-to-write";
/// How many seconds ago the last of them may have been heard; 0 turns the other one off.
const MAX_LAG: &str = "min-replicas-max-lag";
/// The same by older names that servers still take.
const OLDER: [&str; 2] = ["min-slaves-to-write", "min-slaves-max-lag"];
/// What the server takes where nobody says anything.
const DEFAULT_MAX_LAG: u32 = 10;
/// More than any server has: it must not count by itself, because it counts whoever copies from it.
const NEVER_REACHED: u32 = i32::MAX.unsigned_abs();

/// Whether a directive decides whether writes are taken.
pub(crate) fn decides_about_writes(name: &str) -> bool {
    [TO_WRITE, MAX_LAG].into_iter().chain(OLDER).any(|known| name.eq_ignore_ascii_case(known))
}

/// What the directives are to be without a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) to_write: u32,
    pub(crate) max_lag: u32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { to_write: 0, max_lag: DEFAULT_MAX_LAG }
    }
}

impl Wanted {
    /// Read from the configuration, with the older names that servers still take.
    pub(crate) fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let number =
            |name: &str, older: &str| value(name).or_else(|| value(older))?.trim().parse::<u32>().ok();
        let default = Self::default();
        let [older_to_write, older_max_lag] = OLDER;
        Self {
            to_write: number(TO_WRITE, older_to_write).unwrap_or(default.to_write),
            max_lag: number(MAX_LAG, older_max_lag).unwrap_or(default.max_lag),
        }
    }

    /// What makes the server refuse every write.
    pub(crate) fn refusing(self) -> [(&'static str, String); 2] {
        let max_lag = if self.max_lag == 0 { DEFAULT_MAX_LAG } else { self.max_lag };
        [(TO_WRITE, NEVER_REACHED.to_string()), (MAX_LAG, max_lag.to_string())]
    }

    /// Whether a server refuses every write just now.
    pub(crate) async fn refused_now(connection: &Connection) -> Result<bool, valkey::Error> {
        let values = connection.config_get(&[TO_WRITE]).await?;
        Ok(values.get(TO_WRITE).is_some_and(|value| *value == NEVER_REACHED.to_string()))
    }

    /// What the server is told once it is cleared up.
    pub(crate) fn directives(self) -> [(&'static str, String); 2] {
        [(TO_WRITE, self.to_write.to_string()), (MAX_LAG, self.max_lag.to_string())]
    }
}

/// A server that holds writes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The replicas it had, each of which may have taken over.
    pub(crate) in_doubt: Vec<String>,
    pub(crate) wanted: Wanted,
}

impl Hold {
    /// What the server is started with: words behind its file, which count more than the file.
    pub(crate) fn args(&self) -> [String; 4] {
        let [(to_write, never_reached), (max_lag, lag)] = self.wanted.refusing();
        [format!("--{to_write}"), never_reached, format!("--{max_lag}"), lag]
    }

    /// For the note that the probe reads.
    pub(crate) fn render(&self) -> String {
        format!("{} {}\n{}\n", self.wanted.to_write, self.wanted.max_lag, self.in_doubt.join(" "))
    }

    /// Reads such a note.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (numbers, names) = text.split_once('\n')?;
        let (to_write, max_lag) = numbers.split_once(' ')?;
        let in_doubt: Vec<String> = names.split_ascii_whitespace().map(str::to_owned).collect();
        let wanted = Wanted { to_write: to_write.parse().ok()?, max_lag: max_lag.parse().ok()? };
        (!in_doubt.is_empty()).then_some(Self { in_doubt, wanted })
    }

    /// Why nothing has to be held back any more, if so.
    pub(crate) fn cleared_up(&self, table: &ClusterNodes, replication: &Replication) -> Option<Cleared> {
        let myself = table.myself().filter(|_| table.unreadable == 0)?;
        if !myself.is_primary() || myself.slots.is_empty() {
            return Some(Cleared::LeadsNothing);
        }
        let is_settled = |id: &String| match table.get(id) {
            // The cluster has struck it out: nobody has this identity any more.
            None => true,
            // Whoever took over follows nobody. A copy that has only begun tells as much as one that is through.
            Some(replica) => {
                replica.follows(myself)
                    && !replica.has_failed()
                    && is_alone_at_its_address(table, replica)
                    && copies(replication, replica, |_| true)
            }
        };
        self.in_doubt.iter().all(is_settled).then_some(Cleared::Followed)
    }
}

/// Addresses are given again: a connection from one that two nodes have is nobody's for certain.
fn is_alone_at_its_address(table: &ClusterNodes, node: &Node) -> bool {
    let is_there =
        |other: &&Node| (&other.address.ip, other.address.port) == (&node.address.ip, node.address.port);
    table.nodes.iter().filter(is_there).count() == 1
}

/// Whether a node copies from the server that answered, in this way. Not everybody who does is a node of its cluster.
pub(crate) fn copies(replication: &Replication, node: &Node, so: impl Fn(&ReplicaLine) -> bool) -> bool {
    let address = |text: &str| text.parse::<IpAddr>().ok();
    let Some(known) = address(&node.address.ip) else { return false };
    // A server that speaks TLS only tells no port here to those who speak to it otherwise.
    let is_port = |port| node.address.port == 0 || node.address.port == port;
    replication.replicas.iter().any(|line| address(&line.ip) == Some(known) && is_port(line.port) && so(line))
}

/// Why a hold ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cleared {
    LeadsNothing,
    Followed,
    Overdue,
}

impl fmt::Display for Cleared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeadsNothing => "it leads nothing any more",
            Self::Followed => "its replicas follow it",
            Self::Overdue => "a replica did not come back in time",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use valkey::Info;

    use super::*;

    const LEADS: &str = "aaaa 10.0.0.1:6379@16379 myself,master - 0 0 3 connected 0-5460";
    const FIRST: &str = "bbbb 10.0.0.2:6379@16379 slave aaaa 0 0 3 connected";
    const SECOND: &str = "cccc 10.0.0.3:6379@16379 slave aaaa 0 0 3 connected";

    fn wanted(lines: &[(&str, &str)]) -> Wanted {
        let values: BTreeMap<&str, &str> = lines.iter().copied().collect();
        Wanted::read(|name| values.get(name).copied())
    }

    fn hold(in_doubt: &[&str]) -> Hold {
        Hold { in_doubt: in_doubt.iter().map(|id| (*id).to_owned()).collect(), wanted: wanted(&[]) }
    }

    /// What a server says that has these connections.
    fn copied_by(connections: &[(&str, u16, &str)]) -> Replication {
        let lines: String = connections
            .iter()
            .enumerate()
            .map(|(n, (ip, port, state))| {
                format!("slave{n}:ip={ip},port={port},state={state},offset=0,lag=0\r\n")
            })
            .collect();
        Info::parse(&format!("role:master\r\n{lines}")).replication().expect("should tell of replication")
    }

    fn cleared(in_doubt: &[&str], table: &[&str], connections: &[(&str, u16, &str)]) -> Option<Cleared> {
        hold(in_doubt).cleared_up(&ClusterNodes::parse(&table.join("\n")), &copied_by(connections))
    }

    #[test]
    fn every_replica_in_doubt_has_to_follow() {
        let promoted = "bbbb 10.0.0.2:6379@16379 master - 0 0 3 connected";
        let of_another = "bbbb 10.0.0.2:6379@16379 slave dddd 0 0 3 connected";
        let with_tls = "bbbb 10.0.0.2:0@16379,,tls-port=6379 slave aaaa 0 0 3 connected";
        let moved_there = "cccc 10.0.0.2:6379@16379 slave aaaa 0 0 3 connected";
        let failed = "bbbb 10.0.0.2:6379@16379 slave,fail aaaa 0 0 3 disconnected";
        let nowhere = "bbbb :0@0 slave,noaddr aaaa 0 0 3 disconnected";
        let first = ("10.0.0.2", 6379, "online");
        let begun = ("10.0.0.2", 6379, "wait_bgsave");
        let second = ("10.0.0.3", 6379, "online");
        let followed = Some(Cleared::Followed);
        for (in_doubt, table, connections, expected) in [
            (vec!["bbbb"], vec![LEADS, FIRST], vec![], None),
            (vec!["bbbb"], vec![LEADS, FIRST], vec![first], followed),
            (vec!["bbbb"], vec![LEADS, FIRST], vec![begun], followed),
            (vec!["bbbb"], vec![LEADS, with_tls], vec![first], followed),
            // It is connected still, and somebody told that it leads: it will hear of it.
            (vec!["bbbb"], vec![LEADS, promoted], vec![first], None),
            (vec!["bbbb"], vec![LEADS, of_another], vec![first], None),
            (vec!["bbbb"], vec![LEADS, nowhere], vec![first], None),
            (vec!["bbbb", "cccc"], vec![LEADS, FIRST, SECOND], vec![first], None),
            // The same one, with a connection of its own for the copy.
            (vec!["bbbb", "cccc"], vec![LEADS, FIRST, SECOND], vec![first, begun], None),
            (vec!["bbbb", "cccc"], vec![LEADS, FIRST, SECOND], vec![first, second], followed),
            // Somebody new, or somebody from outside, says nothing about the one in doubt.
            (vec!["bbbb"], vec![LEADS, FIRST, SECOND], vec![second], None),
            (vec!["bbbb"], vec![LEADS, FIRST], vec![("10.9.9.9", 6379, "online")], None),
            (vec!["bbbb"], vec![LEADS, FIRST], vec![("10.0.0.2", 0, "online")], None),
            // Two at one address: one of them has it no more, and may be the one that took over.
            (vec!["bbbb"], vec![LEADS, FIRST, moved_there], vec![first], None),
            (vec!["bbbb", "cccc"], vec![LEADS, FIRST, moved_there], vec![first], None),
            (vec!["bbbb"], vec![LEADS, failed], vec![first], None),
            // Struck out.
            (vec!["bbbb"], vec![LEADS], vec![], followed),
            (vec!["bbbb"], vec![LEADS, "garbage"], vec![], None),
            (vec!["bbbb"], vec![FIRST], vec![first], None),
        ] {
            assert_eq!(cleared(&in_doubt, &table, &connections), expected, "{table:?} {connections:?}");
        }
    }

    #[test]
    fn who_leads_nothing_holds_nothing_back() {
        let follows = "aaaa 10.0.0.1:6379@16379 myself,slave bbbb 0 0 4 connected";
        let slotless = "aaaa 10.0.0.1:6379@16379 myself,master - 0 0 3 connected";
        for myself in [follows, slotless] {
            assert_eq!(cleared(&["bbbb"], &[myself, FIRST], &[]), Some(Cleared::LeadsNothing), "{myself}");
        }
    }

    #[test]
    fn what_the_user_wants_is_what_counts_afterwards() {
        for (lines, max_lag, afterwards) in [
            (vec![], "10", ["0", "10"]),
            (vec![(TO_WRITE, "1"), (MAX_LAG, "5")], "5", ["1", "5"]),
            (vec![("min-slaves-to-write", "1"), ("min-slaves-max-lag", "0")], "10", ["1", "0"]),
            (vec![(TO_WRITE, "many")], "10", ["0", "10"]),
        ] {
            let hold = Hold { in_doubt: vec!["bbbb".to_owned()], wanted: wanted(&lines) };
            assert_eq!(
                hold.args(),
                ["--min-replicas-to-write", "2147483647", "--min-replicas-max-lag", max_lag]
            );
            assert_eq!(hold.wanted.directives().map(|(_, value)| value), afterwards, "{lines:?}");
        }
    }

    #[test]
    fn other_text_is_no_note() {
        for text in
            ["", "\n", "0 10\n", "0 10", "0 10\n\n", "0\nbbbb", "0 10 1\nbbbb", "a b\nbbbb", "-1 1\nbbbb"]
        {
            assert_eq!(Hold::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_note_says_what_was_written(
            to_write: u32,
            max_lag: u32,
            in_doubt in prop::collection::vec("[0-9a-f]{40}", 1..5),
        ) {
            let hold = Hold { in_doubt, wanted: Wanted { to_write, max_lag } };
            prop_assert_eq!(Hold::parse(&hold.render()), Some(hold));
        }
    }
}
