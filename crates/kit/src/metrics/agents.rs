//! What comes from the agents in pods.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why, or how it went.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Message {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Channel {
    reason: &'static str,
}

/// The metrics of agents.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    messages: Family<Message, Counter>,
    refusals: Family<Channel, Counter>,
}

impl Agents {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "agent_messages",
            "Heartbeats and events of agents, by outcome: taken, or why not",
            self.messages.clone(),
        );
        registry.register(
            "agent_channel_refusals",
            "Connections to the port for agents that were not let in, by reason",
            self.refusals.clone(),
        );
    }

    /// A message was heard.
    pub fn heard(&self, outcome: &'static str) {
        self.messages.get_or_create(&Message { outcome }).inc();
    }

    /// How many messages were heard with this outcome.
    pub fn count(&self, outcome: &'static str) -> u64 {
        self.messages.get_or_create(&Message { outcome }).get()
    }

    /// A channel was not opened.
    pub fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Channel { reason }).inc();
    }

    /// How many channels were not opened for this reason.
    pub fn refusals(&self, reason: &'static str) -> u64 {
        self.refusals.get_or_create(&Channel { reason }).get()
    }
}
