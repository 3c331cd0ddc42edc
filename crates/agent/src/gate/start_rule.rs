//! As whom a server may start: the rule alone, over plain facts.
//!
//! A server without its last writes must not become what its replicas copy from, because then they lose theirs. The reasons
//! are in `docs/adr/0008-a-server-without-its-data-starts-as-a-stranger.md`.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use valkey::cluster::{Address, ClusterNodes, Flag, Node};

use crate::args::Data;

/// What is known when a server is about to start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// What becomes of its data.
    pub(crate) data: Data,
    /// Its nodes.conf, if there is one.
    pub(crate) nodes_conf: Option<&'a str>,
    /// A server was started in this pod before: its process ended, the pod did not.
    pub(crate) restarted: bool,
    /// The tables of the peers that answered last.
    pub(crate) heard: &'a [ClusterNodes],
}

impl Facts<'_> {
    /// Identity and data have to be removed before the start: the cluster knows this server no more, and it joins as a new one.
    pub(crate) fn is_stranger(&self) -> bool {
        self.data == Data::Volatile && self.nodes_conf.is_some()
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Start.
    Start(Reason),
    /// Ask these peers, the most telling first, and decide again. Somebody has to set a limit to it.
    WaitForPeers(Vec<Address>),
}

/// Why a server may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    FirstStart,
    NewPod,
    UnknownPast,
    NothingToLose,
    NoReplica,
    TakenOver { by: String },
    NoReplicaAlive,
    NobodyTookOver { within: Duration },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstStart => "it was never in a cluster",
            Self::NewPod => "its data was kept and the pod is new",
            Self::UnknownPast => "its nodes.conf does not tell who it was",
            Self::NothingToLose => "it was no primary with slots",
            Self::NoReplica => "it knew no replica that could take over",
            Self::TakenOver { by } => return write!(f, "its slots belong to {by} now"),
            Self::NoReplicaAlive => "its peers see no replica of it that could take over",
            Self::NobodyTookOver { within } => return write!(f, "nobody took over within {within:?}"),
        })
    }
}

/// The rule.
pub(crate) fn decide(facts: &Facts<'_>) -> Decision {
    use Decision::{Start, WaitForPeers};
    let Some(text) = facts.nodes_conf else { return Start(Reason::FirstStart) };
    // Data in memory is gone in whatever way the process ended.
    if !facts.restarted && !facts.is_stranger() {
        return Start(Reason::NewPod);
    }
    let table = ClusterNodes::parse(text);
    let Some(myself) = table.myself() else { return Start(Reason::UnknownPast) };
    if !myself.is_primary() || myself.slots.is_empty() {
        return Start(Reason::NothingToLose);
    }
    let counts = if facts.is_stranger() { has_follower } else { has_successor };
    if !counts(&table, myself) {
        return Start(Reason::NoReplica);
    }
    if let Some(by) = facts.heard.iter().find_map(|table| new_owner(table, myself)) {
        return Start(Reason::TakenOver { by: by.id.clone() });
    }
    // Who does not know this server has no say about its replicas.
    let mut judges = facts.heard.iter().filter(|table| table.nodes.iter().any(|node| node.id == myself.id));
    let asked = judges.clone().next().is_some();
    if asked && judges.all(|table| !counts(table, myself)) {
        return Start(Reason::NoReplicaAlive);
    }
    WaitForPeers(peers(&table, myself))
}

/// Whether somebody copies from the address of this server, and would copy nothing over everything if a stranger answered there.
pub(crate) fn is_followed(facts: &Facts<'_>) -> bool {
    let table = facts.nodes_conf.map(ClusterNodes::parse).unwrap_or_default();
    let Some(myself) = table.myself() else { return false };
    facts.heard.iter().any(|heard| has_follower(heard, myself))
}

/// The replicas a server has to hear from before it acknowledges anything: each of those it had may have taken over in its
/// last moment, without its knowing.
pub(crate) fn replicas_in_doubt(facts: &Facts<'_>, reason: &Reason) -> Vec<String> {
    // It leads nothing, or its peers know it better.
    if facts.is_stranger() || *reason == Reason::NoReplicaAlive {
        return Vec::new();
    }
    let table = facts.nodes_conf.map(ClusterNodes::parse).unwrap_or_default();
    let Some(myself) = table.myself().filter(|myself| myself.is_primary() && !myself.slots.is_empty()) else {
        return Vec::new();
    };
    // Also those that are not elected: they take over when they are told to.
    followers(&table, myself).map(|node| node.id.clone()).collect()
}

/// A replica may have more than the disk of its primary, and may take over.
fn has_successor(table: &ClusterNodes, primary: &Node) -> bool {
    followers(table, primary).any(|node| !node.flags.contains(&Flag::NoFailover))
}

/// A replica copies from whoever answers at the address of its primary, also one that may not take over.
fn has_follower(table: &ClusterNodes, primary: &Node) -> bool {
    followers(table, primary).next().is_some()
}

fn followers<'a>(table: &'a ClusterNodes, primary: &'a Node) -> impl Iterator<Item = &'a Node> {
    table.nodes.iter().filter(|node| node.follows(primary) && !node.has_failed())
}

/// Whoever claims one of the slots by a newer epoch: the same comparison by which the server itself will give in. An older
/// claim is only a table that has not heard of ours.
fn new_owner<'a>(table: &'a ClusterNodes, former: &Node) -> Option<&'a Node> {
    table.nodes.iter().find(|node| {
        node.id != former.id
            && node.is_primary()
            && node.config_epoch > former.config_epoch
            && node.slots.iter().any(|theirs| {
                former.slots.iter().any(|ours| theirs.start() <= ours.end() && ours.start() <= theirs.end())
            })
    })
}

/// Enough to find one that answers; more would only cost.
const MOST_PEERS: usize = 8;

/// Replicas first: one of them is the new owner, and the first to know. Those that were well before the others.
fn peers(table: &ClusterNodes, myself: &Node) -> Vec<Address> {
    let unknown = [Flag::Myself, Flag::Handshake, Flag::NoAddress];
    let mut peers: Vec<&Node> = table
        .nodes
        .iter()
        .filter(|node| node.id != myself.id && !node.address.ip.is_empty())
        .filter(|node| unknown.iter().all(|flag| !node.flags.contains(flag)))
        .collect();
    peers.sort_by_key(|node| Reverse((!node.has_failed(), node.follows(myself))));
    peers.into_iter().take(MOST_PEERS).map(|node| node.address.clone()).collect()
}

#[cfg(test)]
mod tests;
