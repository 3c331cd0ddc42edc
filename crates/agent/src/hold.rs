//! Writes that are held back. A server that comes back as a primary cannot know whether a replica took over in its last
//! moment. Whoever did so would throw away what this server acknowledges, so that it acknowledges nothing before that is
//! cleared up. The reasons are in `docs/adr/0012-a-primary-that-is-back-waits-for-its-replicas.md`.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use valkey::cluster::{ClusterNodes, Node};
use valkey::info::Replication;

/// How many replicas have to follow before a write is taken.
const TO_WRITE: &str = "min-replicas-to-write";
/// How many seconds ago the last of them may have been heard; 0 turns the other one off.
const MAX_LAG: &str = "min-replicas-max-lag";
/// What the server takes where nobody says anything.
const DEFAULT_MAX_LAG: u32 = 10;

/// What the directives were to be without a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) to_write: u32,
    pub(crate) max_lag: u32,
}

impl Wanted {
    /// Read from the configuration, with the older names that servers still take.
    pub(crate) fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let number =
            |name: &str, older: &str| value(name).or_else(|| value(older))?.trim().parse::<u32>().ok();
        Self {
            to_write: number(TO_WRITE, "min-slaves-to-write").unwrap_or_default(),
            max_lag: number(MAX_LAG, "min-slaves-max-lag").unwrap_or(DEFAULT_MAX_LAG),
        }
    }
}

/// A server that holds writes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// How many replicas it had, each of which may have taken over.
    pub(crate) replicas: u32,
    pub(crate) wanted: Wanted,
}

impl Hold {
    /// What the server is started with: words behind its file, which count more than the file.
    pub(crate) fn args(&self) -> [String; 4] {
        let max_lag = if self.wanted.max_lag == 0 { DEFAULT_MAX_LAG } else { self.wanted.max_lag };
        let to_write = self.wanted.to_write.max(self.replicas);
        [format!("--{TO_WRITE}"), to_write.to_string(), format!("--{MAX_LAG}"), max_lag.to_string()]
    }

    /// What the server is told once it is cleared up.
    pub(crate) fn afterwards(&self) -> [(&'static str, String); 2] {
        [(TO_WRITE, self.wanted.to_write.to_string()), (MAX_LAG, self.wanted.max_lag.to_string())]
    }

    /// For the note that the probe reads.
    pub(crate) fn render(&self) -> String {
        format!("{} {} {}\n", self.replicas, self.wanted.to_write, self.wanted.max_lag)
    }

    /// Reads such a note.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        Some(Self { replicas: next()?, wanted: Wanted { to_write: next()?, max_lag: next()? } })
    }

    /// Why nothing has to be held back any more.
    pub(crate) fn cleared_up(&self, facts: &Facts<'_>) -> Option<Cleared> {
        let owns_slots =
            facts.table.myself().is_some_and(Node::is_primary) && !facts.table.slots_of_myself().is_empty();
        if !owns_slots {
            return Some(Cleared::LeadsNobody);
        }
        // Whoever took over follows nobody. A copy that has only begun tells as much as one that is through. One replica
        // may be listed twice, when it is copied to by two connections.
        let following: BTreeSet<(&str, u16)> =
            facts.replication.replicas.iter().map(|replica| (replica.ip.as_str(), replica.port)).collect();
        if following.len() >= usize::try_from(self.replicas).unwrap_or(usize::MAX) {
            return Some(Cleared::Followed);
        }
        (facts.waited >= facts.limit).then_some(Cleared::Overdue)
    }
}

/// What is known of a server that holds writes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) table: &'a ClusterNodes,
    pub(crate) replication: &'a Replication,
    /// Since it answers.
    pub(crate) waited: Duration,
    /// How long a replica that does not come is waited for.
    pub(crate) limit: Duration,
}

/// Why a hold ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cleared {
    LeadsNobody,
    Followed,
    Overdue,
}

impl fmt::Display for Cleared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeadsNobody => "another server leads",
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

    const LIMIT: Duration = Duration::from_mins(1);
    const LEADS: &str = "aaaa 10.0.0.1:6379@16379 myself,master - 0 0 3 connected 0-5460";

    fn wanted(lines: &[(&str, &str)]) -> Wanted {
        let values: BTreeMap<&str, &str> = lines.iter().copied().collect();
        Wanted::read(|name| values.get(name).copied())
    }

    fn hold(replicas: u32) -> Hold {
        Hold { replicas, wanted: wanted(&[]) }
    }

    fn cleared(replicas: u32, myself: &str, info: &str, waited: u64) -> Option<Cleared> {
        let table = ClusterNodes::parse(myself);
        let replication = Info::parse(info).replication()?;
        hold(replicas).cleared_up(&Facts {
            table: &table,
            replication: &replication,
            waited: Duration::from_secs(waited),
            limit: LIMIT,
        })
    }

    #[test]
    fn all_replicas_have_to_follow() {
        let nobody = "role:master\r\n";
        let one = "role:master\r\nslave0:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0\r\n";
        // The same replica, with a connection for the copy of its own.
        let twice = "role:master\r\n\
                     slave0:ip=10.0.0.2,port=6379,state=online,offset=0,lag=0,type=main-channel\r\n\
                     slave1:ip=10.0.0.2,port=6379,state=send_bulk,offset=0,lag=0,type=rdb-channel\r\n";
        let two = "role:master\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=0,lag=0\r\n\
                   slave1:ip=10.0.0.3,port=6379,state=online,offset=0,lag=0\r\n";
        for (replicas, info, expected) in [
            (1, nobody, None),
            (1, one, Some(Cleared::Followed)),
            (2, one, None),
            (2, twice, None),
            (2, two, Some(Cleared::Followed)),
        ] {
            assert_eq!(cleared(replicas, LEADS, info, 0), expected, "{replicas}: {info}");
        }
    }

    #[test]
    fn who_leads_nobody_holds_nothing_back() {
        let follows = "aaaa 10.0.0.1:6379@16379 myself,slave bbbb 0 0 4 connected";
        let slotless = "aaaa 10.0.0.1:6379@16379 myself,master - 0 0 3 connected";
        for myself in [follows, slotless] {
            assert_eq!(cleared(1, myself, "role:slave\r\n", 0), Some(Cleared::LeadsNobody), "{myself}");
        }
    }

    #[test]
    fn a_replica_that_does_not_come_is_not_waited_for_for_ever() {
        assert_eq!(cleared(1, LEADS, "role:master\r\n", 59), None);
        assert_eq!(cleared(1, LEADS, "role:master\r\n", 60), Some(Cleared::Overdue));
    }

    #[test]
    fn what_the_user_wants_is_what_counts_afterwards() {
        for (lines, words, afterwards) in [
            (vec![], ["2", "10"], ["0", "10"]),
            (vec![(TO_WRITE, "1"), (MAX_LAG, "5")], ["2", "5"], ["1", "5"]),
            (vec![(TO_WRITE, "3")], ["3", "10"], ["3", "10"]),
            (vec![("min-slaves-to-write", "1"), ("min-slaves-max-lag", "0")], ["2", "10"], ["1", "0"]),
            (vec![(TO_WRITE, "many")], ["2", "10"], ["0", "10"]),
        ] {
            let hold = Hold { replicas: 2, wanted: wanted(&lines) };
            let [first, to_write, second, max_lag] = hold.args();
            assert_eq!([first, second], ["--min-replicas-to-write", "--min-replicas-max-lag"]);
            assert_eq!([to_write, max_lag], words, "{lines:?}");
            assert_eq!(hold.afterwards().map(|(_, value)| value), afterwards, "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn a_note_says_what_was_written(replicas: u32, to_write: u32, max_lag: u32) {
            let hold = Hold { replicas, wanted: Wanted { to_write, max_lag } };
            prop_assert_eq!(Hold::parse(&hold.render()), Some(hold));
        }

        #[test]
        fn other_text_is_no_note(text in "[a-z -]*") {
            prop_assert_eq!(Hold::parse(&text), None);
        }

        /// Without a word from its replicas, no server is let go before the limit as long as it leads.
        #[test]
        fn nobody_is_let_go_early(replicas in 1u32..5, following in 0u32..5, waited in 0u64..60) {
            let lines: String = (0..following)
                .map(|n| format!("slave{n}:ip=10.0.1.{n},port=6379,state=online,offset=0,lag=0\r\n"))
                .collect();
            let cleared = cleared(replicas, LEADS, &format!("role:master\r\n{lines}"), waited);
            prop_assert_eq!(cleared.is_some(), following >= replicas);
        }
    }
}
