//! What happens when a primary dies: the agent beside it knows it at once and for certain, and has the best replica take over, without
//! waiting for anybody to suspect it. The reasons are in `docs/adr/0015-who-knows-of-a-death-starts-the-takeover.md`.
//!
//! * `standing` (pure) is what a server is in its shard, `death` (pure) what one that died leaves behind.
//! * `succession` is the side of the dead: it asks all replicas and orders the one that `choice` (pure) says.
//! * `successor` is the side of the replica: it does what `acceptance` (pure) allows.

mod acceptance;
mod choice;
mod death;
mod standing;
mod succession;
mod successor;

pub(super) use acceptance::{Caller, is_beside};
pub(super) use death::Death;
pub(super) use succession::go_on;
pub(super) use successor::Successor;
