//! What cluster mode says about the members of a cluster.

mod address;
mod flags;
mod health;
mod migrations;
mod nodes;
mod shards;
pub mod voters;

pub use address::Address;
pub use flags::Flag;
pub use health::ClusterHealth;
pub use migrations::{Direction, MigrationState, SlotMigration};
pub use nodes::{ClusterNodes, MovingSlot, Node};
pub use shards::{Shard, ShardNode};
