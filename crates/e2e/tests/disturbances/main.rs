//! Disturbances of the whole cluster, one after the other: lost machines, lost leaders, crashes, and plain idleness.
//! And what is measured in seconds, which other tests must not disturb.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on must end")]

mod changes;
mod clusters;
mod crashes;
mod failovers;
mod faults;
mod idle;
mod leaders;
mod leases;
mod machines;
mod users;
