//! `ValkeyCluster`: a sharded Valkey with replicas, its users and its placement. It is made of `ValkeyNode`s.

mod exporter;
mod networking;
mod scheduling;
mod spec;
mod status;
mod users;

pub use exporter::Exporter;
pub use networking::{Networking, NetworkingTls, ServerCertificate, TlsCertificates};
pub use scheduling::{
    NodeScheduling, Scheduling, Spread, SpreadMode, SpreadRule, ZonePinning, ZoneScheduling,
};
pub use spec::{
    PodDisruptionBudgetMode, PodDisruptionBudgetSettings, RollingUpdate, ValkeyCluster, ValkeyClusterSpec,
};
pub use status::{
    AclStatus, BudgetMode, BudgetStatus, ClusterPhase, Images, Orchestration, ReplicaStatus, ShardStatus,
    Summary, ValkeyClusterStatus,
};
pub use users::{PasswordSecret, User, UserChannels, UserCommands, UserKeys};

/// Default of switches that are on.
fn yes() -> bool {
    true
}
