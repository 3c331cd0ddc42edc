//! Whom our server has lost: it knows them, and cannot reach them where they were. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use valkey::cluster::{ClusterNodes, Flag, Node};

/// A link that breaks comes back by itself, unless the other end has moved. The operator, who sees it earlier, comes first too.
const PATIENCE: Duration = Duration::from_secs(3);
/// After the first try to find somebody; then twice as long each time, until it is [`SELDOM`]. Who is away for a day must not cost every
/// other one a question every few seconds.
const AGAIN: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(30);
/// Whom one of us looks for at the same time. Everybody looks for those that come after it, so all are looked for, and gossip does the
/// rest where a cluster is larger.
const AT_ONCE: usize = 16;

/// Somebody our server has lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) node_id: String,
    /// The name that stays when it moves.
    pub(super) host: String,
}

/// Since when, and when it is to be looked for.
struct Since {
    next: Instant,
    pause: Duration,
    /// What was said of it last.
    said: String,
}

/// By identity.
#[derive(Default)]
pub(super) struct Lost(HashMap<String, Since>);

impl Lost {
    /// Whom to look for now, by what our server knows now.
    pub(super) fn seek(&mut self, table: &ClusterNodes, now: Instant) -> Vec<Missing> {
        let lost: Vec<&Node> = table.nodes.iter().filter(|node| is_lost(node)).collect();
        self.0.retain(|id, _| lost.iter().any(|node| node.id == *id));
        let myself = table.myself().map(|myself| myself.id.as_str()).unwrap_or_default();
        let mut due: Vec<&Node> = Vec::new();
        for node in lost {
            let new = || Since { next: now + PATIENCE, pause: AGAIN, said: String::new() };
            if self.0.entry(node.id.clone()).or_insert_with(new).next <= now {
                due.push(node);
            }
        }
        due.sort_unstable_by_key(|node| (node.id.as_str() < myself, node.id.as_str()));
        due.truncate(AT_ONCE);
        for node in &due {
            if let Some(since) = self.0.get_mut(&node.id) {
                since.next = now + since.pause;
                since.pause = (since.pause * 2).min(SELDOM);
            }
        }
        let missing = |node: &Node| {
            let host = node.address.hostname.clone()?;
            Some(Missing { node_id: node.id.clone(), host })
        };
        due.into_iter().filter_map(missing).collect()
    }
}

impl Lost {
    /// Whether something else is said of somebody than before.
    pub(super) fn is_news(&mut self, node_id: &str, words: &str) -> bool {
        let Some(since) = self.0.get_mut(node_id) else { return true };
        let is_news = since.said != words;
        words.clone_into(&mut since.said);
        is_news
    }
}

/// It has a name to look for, and is not only being introduced. Where nothing answers at all at an address, not even with a refusal, a
/// link to it counts as one, and only the silence tells.
fn is_lost(node: &Node) -> bool {
    let is = |flag: &Flag| node.flags.contains(flag);
    let is_other = !is(&Flag::Myself) && !is(&Flag::Handshake);
    let is_silent = !node.connected || is(&Flag::PossiblyFailed) || is(&Flag::Failed);
    is_other && is_silent && node.address.hostname.as_deref().is_some_and(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: &str =
        "m 10.0.0.1:6379@16379,valkey-cache-0-0.team.svc myself,master - 0 0 7 connected 0-5460\n";

    fn peer(id: &str, rest: &str) -> String {
        format!("{id} 10.0.0.9:6379@16379,valkey-{id}.team.svc {rest}\n")
    }

    fn ids(missing: &[Missing]) -> Vec<&str> {
        missing.iter().map(|one| one.node_id.as_str()).collect()
    }

    #[test]
    fn whoever_stays_away_is_looked_for_now_and_then() {
        let (mut lost, start) = (Lost::default(), Instant::now());
        let away =
            ClusterNodes::parse(&(ME.to_owned() + &peer("a", "master - 0 0 1 disconnected 5461-16383")));
        let back = ClusterNodes::parse(&(ME.to_owned() + &peer("a", "master - 0 0 1 connected 5461-16383")));
        for (milliseconds, table, expected) in [
            (0, &away, false),
            (2999, &away, false),
            (3000, &away, true),
            (4999, &away, false),
            (5000, &away, true),
            (8999, &away, false),
            (9000, &away, true),
            (16_999, &away, false),
            (17_000, &away, true),
            (33_000, &away, true),
            // No longer than that.
            (63_000, &away, true),
            (64_000, &back, false),
            // Another time it is lost is another time.
            (70_000, &away, false),
            (73_000, &away, true),
        ] {
            let missing = lost.seek(table, start + Duration::from_millis(milliseconds));
            assert_eq!(!missing.is_empty(), expected, "after {milliseconds} ms");
        }
    }

    #[test]
    fn those_that_come_after_us_come_first_and_not_all_at_once() {
        let (mut lost, start) = (Lost::default(), Instant::now());
        let many: String = (0..40).map(|n| peer(&format!("n{n:02}"), "slave x 0 0 1 disconnected")).collect();
        let table =
            ClusterNodes::parse(&format!("{ME}{}{many}", peer("a", "master,fail - 0 0 1 disconnected")));
        assert!(lost.seek(&table, start).is_empty());
        let first = lost.seek(&table, start + PATIENCE);
        assert_eq!((first.len(), first[0].node_id.as_str()), (AT_ONCE, "n00"));
        assert_eq!(first[0].host, "valkey-n00.team.svc");
        let second = lost.seek(&table, start + PATIENCE);
        assert_eq!(second[0].node_id, "n16", "those that were just looked for wait");
        assert!(!ids(&second).contains(&"a"), "it comes before us");
    }

    #[test]
    fn silence_is_enough() {
        for (flags, link, expected) in [
            ("master", "connected", false),
            ("master", "disconnected", true),
            ("master,fail?", "connected", true),
            ("slave,fail", "connected", true),
            ("handshake", "disconnected", false),
        ] {
            let (mut lost, start) = (Lost::default(), Instant::now());
            let table =
                ClusterNodes::parse(&format!("{ME}{}", peer("a", &format!("{flags} - 0 0 1 {link}"))));
            lost.seek(&table, start);
            assert_eq!(!lost.seek(&table, start + PATIENCE).is_empty(), expected, "{flags} {link}");
        }
    }

    #[test]
    fn nobody_else_is_looked_for() {
        let (mut lost, start) = (Lost::default(), Instant::now());
        let table = ClusterNodes::parse(&format!(
            "{ME}{}{}b 10.0.0.9:6379@16379 master - 0 0 1 disconnected\n",
            peer("a", "master - 0 0 1 connected"),
            peer("c", "handshake - 0 0 0 disconnected"),
        ));
        assert!(lost.seek(&table, start).is_empty());
        assert!(lost.seek(&table, start + PATIENCE).is_empty());
    }
}
