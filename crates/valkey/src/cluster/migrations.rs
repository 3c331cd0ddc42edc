//! CLUSTER GETSLOTMIGRATIONS: slots on their way from one node to another.

use redis::Value;

use crate::client::reply::{entries, text};
use crate::slots::SlotRange;

/// One move of slots, as one of its two ends tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMigration {
    /// The same at both ends.
    pub name: String,
    /// Which end answered.
    pub operation: Direction,
    /// What moves.
    pub ranges: Vec<SlotRange>,
    /// The id of the node that gives; a replica, which only looks on, does not know it.
    pub source_id: Option<String>,
    /// The id of the node that takes; a replica does not know it either.
    pub target_id: Option<String>,
    /// How far it is.
    pub state: MigrationState,
    /// Why it failed, in the server's words; empty otherwise.
    pub message: String,
}

/// Which end of a move a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Direction {
    /// The slots come to it.
    Import,
    /// The slots leave it.
    Export,
}

/// How far a move is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationState {
    /// Under way, or in a state this program does not know: the server's word for it.
    Running(String),
    /// The slots are at the target.
    Success,
    /// The slots stay with the source; the message says why.
    Failed,
    /// The slots stay with the source because somebody asked for it.
    Cancelled,
}

impl MigrationState {
    fn parse(word: &str) -> Self {
        match word {
            "success" => Self::Success,
            "failed" => Self::Failed,
            "cancelled" | "canceled" => Self::Cancelled,
            other => Self::Running(other.to_owned()),
        }
    }

    /// Whether the move goes on.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }
}

impl SlotMigration {
    /// Reads a reply of RESP2 (arrays of names and values) or RESP3 (maps); `None` where it is no list of moves.
    pub fn read(reply: &Value) -> Option<Vec<Self>> {
        let Value::Array(migrations) = reply else { return None };
        migrations.iter().map(Self::read_one).collect()
    }

    fn read_one(value: &Value) -> Option<Self> {
        let fields = entries(value)?;
        // A field that is not text (times, sizes) is not asked for.
        let field = |wanted: &str| {
            fields
                .iter()
                .find(|(name, _)| text(name).as_deref() == Some(wanted))
                .and_then(|(_, value)| text(value))
        };
        let operation = match field("operation")?.to_ascii_uppercase().as_str() {
            "IMPORT" => Direction::Import,
            "EXPORT" => Direction::Export,
            _ => return None,
        };
        let ranges = field("slot_ranges")?;
        Some(Self {
            name: field("name")?,
            operation,
            ranges: ranges.split_ascii_whitespace().map(SlotRange::parse).collect::<Option<_>>()?,
            source_id: field("source_node"),
            target_id: field("target_node"),
            state: MigrationState::parse(&field("state")?),
            message: field("message").unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests;
