//! What cluster mode says about the members of a cluster.

mod address;
mod flags;
mod nodes;
mod shards;

pub use address::Address;
pub use flags::Flag;
pub use nodes::{ClusterNodes, MovingSlot, Node};
pub(crate) use shards::read as read_shards;
pub use shards::{Shard, ShardNode};
