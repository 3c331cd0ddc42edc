//! CLUSTER NODES: the table of members one node keeps.

use std::collections::BTreeSet;
use std::fmt;

use super::{Address, Flag};
use crate::slots::{SLOT_COUNT, SlotRange};

/// The table of one node. Other nodes may see it differently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterNodes {
    /// The members, in the order of the reply.
    pub nodes: Vec<Node>,
    /// How many lines and slots could not be read. A view with any is no ground for moving slots or forgetting nodes.
    pub unreadable: usize,
}

/// One member of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// The identity, 40 hexadecimal digits; it survives changes of address.
    pub id: String,
    /// Where it is.
    pub address: Address,
    /// What it is.
    pub flags: BTreeSet<Flag>,
    /// Whom it follows, if it is a replica.
    pub primary_id: Option<String>,
    /// When a ping was sent that is not answered yet, in milliseconds of Unix time; 0 if none.
    pub ping_sent: u64,
    /// When the last pong came, in milliseconds of Unix time.
    pub pong_received: u64,
    /// The version of its claim to slots.
    pub config_epoch: u64,
    /// The link of the bus to it is up.
    pub connected: bool,
    /// What it owns.
    pub slots: Vec<SlotRange>,
    /// Slots on their way out, told by `myself` only.
    pub migrating: Vec<MovingSlot>,
    /// Slots on their way in, told by `myself` only.
    pub importing: Vec<MovingSlot>,
}

/// A slot that moves by `CLUSTER SETSLOT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovingSlot {
    /// The slot.
    pub slot: u16,
    /// The id of the node at the other end.
    pub node_id: String,
}

impl ClusterNodes {
    /// Reads a reply, or the node lines of a nodes.conf.
    pub fn parse(text: &str) -> Self {
        let mut table = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            // The last line of nodes.conf carries epochs, not a node.
            if line.split_ascii_whitespace().next() == Some("vars") {
                continue;
            }
            match Node::parse(line) {
                Some((node, unreadable)) => {
                    table.nodes.push(node);
                    table.unreadable += unreadable;
                }
                None => table.unreadable += 1,
            }
        }
        table
    }

    /// The node that answered.
    pub fn myself(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.flags.contains(&Flag::Myself))
    }

    /// What the node that answered owns; nothing where it is unknown.
    pub fn slots_of_myself(&self) -> &[SlotRange] {
        self.myself().map_or(&[], |node| &node.slots)
    }

    /// A node by its identity.
    pub fn get(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }
}

impl Node {
    /// Reads one line, and counts the slots in it that could not be read.
    fn parse(line: &str) -> Option<(Self, usize)> {
        let mut words = line.split_ascii_whitespace();
        let id = words.next()?.to_owned();
        let address = Address::parse(words.next()?)?;
        let flags = words.next()?.split(',').filter_map(Flag::parse).collect();
        let primary_id = words.next().filter(|id| *id != "-").map(str::to_owned);
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or_default();
        let (ping_sent, pong_received, config_epoch) = (number(), number(), number());
        let connected = words.next() == Some("connected");
        let mut node = Self {
            id,
            address,
            flags,
            primary_id,
            ping_sent,
            pong_received,
            config_epoch,
            connected,
            ..Self::default()
        };
        let unreadable = words.filter(|word| node.take_slots(word).is_none()).count();
        Some((node, unreadable))
    }

    /// Reads `5`, `0-5460`, `[77->-id]` (leaving) or `[93-<-id]` (coming).
    fn take_slots(&mut self, word: &str) -> Option<()> {
        let Some(moving) = word.strip_prefix('[') else {
            self.slots.push(SlotRange::parse(word)?);
            return Some(());
        };
        let moving = moving.strip_suffix(']')?;
        let (list, (slot, node_id)) = match moving.split_once("->-") {
            Some(parts) => (&mut self.migrating, parts),
            None => (&mut self.importing, moving.split_once("-<-")?),
        };
        let slot = slot.parse().ok().filter(|slot| *slot < SLOT_COUNT)?;
        list.push(MovingSlot { slot, node_id: node_id.to_owned() });
        Some(())
    }

    /// Whether the node is a primary, with or without slots.
    pub fn is_primary(&self) -> bool {
        self.flags.contains(&Flag::Primary)
    }

    /// Whether the node is a replica.
    pub fn is_replica(&self) -> bool {
        self.flags.contains(&Flag::Replica)
    }

    /// Whether the node is a replica of this one.
    pub fn follows(&self, primary: &Self) -> bool {
        self.is_replica() && self.primary_id.as_ref() == Some(&primary.id)
    }

    /// Whether a majority agreed that the node failed.
    pub fn has_failed(&self) -> bool {
        self.flags.contains(&Flag::Failed)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags: Vec<String> = self.flags.iter().map(Flag::to_string).collect();
        write!(
            f,
            "{} {} {} {} {} {} {} {}",
            self.id,
            self.address,
            if flags.is_empty() { "noflags".to_owned() } else { flags.join(",") },
            self.primary_id.as_deref().unwrap_or("-"),
            self.ping_sent,
            self.pong_received,
            self.config_epoch,
            if self.connected { "connected" } else { "disconnected" },
        )?;
        self.slots.iter().try_for_each(|range| write!(f, " {range}"))?;
        self.migrating.iter().try_for_each(|moving| write!(f, " [{}->-{}]", moving.slot, moving.node_id))?;
        self.importing.iter().try_for_each(|moving| write!(f, " [{}-<-{}]", moving.slot, moving.node_id))
    }
}

#[cfg(test)]
mod tests;
