//! The one disruptive step of a pass. It is written to the status first and taken by a later pass, so that whoever
//! comes next knows what was about to happen.

use valkey::client::FailoverMode;

use super::super::command::{Command, Order};
use super::super::topology::Place;

/// A step that takes something away from clients, if only for a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// Delete exactly this pod; its workload makes a new one.
    RestartPod { node: String, pod: String, uid: String, resource_version: String },
    /// Delete exactly this pod, so that whatever runs in it is ended for certain before somebody takes over from it.
    FencePod { node: String, pod: String, uid: String, resource_version: String },
    /// Let a replica that is in sync take over from its primary.
    HandOver { shard: u32, to: Place, node: String },
    /// Delete exactly this node and everything that belongs to it.
    RemoveNode { node: String, uid: String, resource_version: String },
}

impl Step {
    /// As it stands in the status.
    pub(in super::super) fn describe(&self) -> String {
        match self {
            Self::RestartPod { node, .. } => format!("restarting {node}"),
            Self::FencePod { node, .. } => format!("making sure that the server of {node} is dead"),
            Self::HandOver { shard, node, .. } => format!("handing shard {shard} over to {node}"),
            Self::RemoveNode { node, .. } => format!("removing {node}"),
        }
    }

    /// What events call it.
    pub(in super::super) fn reason(&self) -> &'static str {
        match self {
            Self::RestartPod { .. } => "Restarting",
            Self::FencePod { .. } => "Fencing",
            Self::HandOver { .. } => "HandingOver",
            Self::RemoveNode { .. } => "Removing",
        }
    }

    /// The node it is about.
    pub(in super::super) fn node(&self) -> &str {
        match self {
            Self::RestartPod { node, .. }
            | Self::FencePod { node, .. }
            | Self::HandOver { node, .. }
            | Self::RemoveNode { node, .. } => node,
        }
    }

    /// The command for a server, if the step is one.
    pub(in super::super) fn command(&self) -> Option<Command> {
        match self {
            Self::HandOver { to, .. } => {
                Some(Command { at: *to, order: Order::Failover(FailoverMode::Planned) })
            }
            Self::RestartPod { .. } | Self::FencePod { .. } | Self::RemoveNode { .. } => None,
        }
    }

    /// The shard in which a replica takes over.
    pub(in super::super) fn promotes_in(&self) -> Option<u32> {
        match self {
            Self::HandOver { shard, .. } => Some(*shard),
            Self::RestartPod { .. } | Self::FencePod { .. } | Self::RemoveNode { .. } => None,
        }
    }
}
