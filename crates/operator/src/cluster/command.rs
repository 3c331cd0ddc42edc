//! What the operator can tell a server of a cluster.

use valkey::SlotRange;
use valkey::client::FailoverMode;

use super::topology::Place;

/// One command for one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) at: Place,
    pub(super) order: Order,
}

/// The order itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Start with this epoch, so that claims of nodes long gone cannot win against it.
    SetEpoch(u64),
    /// Own these slots.
    AddSlots(Vec<SlotRange>),
    /// Get to know the server at this address.
    Meet(String),
    /// Follow this primary.
    Replicate { primary: String, flush_first: bool },
    /// Strike this identity from the table.
    Forget(String),
    /// Give these slots, with their keys, to another primary.
    Migrate { ranges: Vec<SlotRange>, to: String },
    /// Give these slots to another primary, one by one and key by key, as far as a pass gets.
    Carry(Route),
    /// These slots neither come nor leave. Not for a server that holds keys of one that it does not own.
    Close(Vec<u16>),
    /// These slots belong to somebody else, whatever the server was told before.
    GiveUp { slots: Vec<u16>, owner: String },
    /// Take over from the primary.
    Failover(FailoverMode),
    /// Show primaries the password that is in use now.
    RenewPassword,
    /// Tell clients that prefer near servers where it is.
    SetZone(String),
}

/// Slots on their way to another primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) ranges: Vec<SlotRange>,
    pub(super) to: Place,
    /// The other primaries: they hear of the new owner sooner than by gossip.
    pub(super) others: Vec<Place>,
}

impl Order {
    /// For logs and counters.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::SetEpoch(_) => "CLUSTER SET-CONFIG-EPOCH",
            Self::AddSlots(_) => "CLUSTER ADDSLOTSRANGE",
            Self::Meet(_) => "CLUSTER MEET",
            Self::Replicate { .. } => "CLUSTER REPLICATE",
            Self::Forget(_) => "CLUSTER FORGET",
            Self::Migrate { .. } => "CLUSTER MIGRATESLOTS",
            Self::Carry(_) => "MIGRATE",
            Self::Close(_) => "CLUSTER SETSLOT STABLE",
            Self::GiveUp { .. } => "CLUSTER SETSLOT NODE",
            Self::Failover(_) => "CLUSTER FAILOVER",
            Self::RenewPassword => "CONFIG SET primaryauth",
            Self::SetZone(_) => "CONFIG SET availability-zone",
        }
    }
}

/// Commands that can be given at the same time.
pub(super) type Stage = Vec<Command>;
