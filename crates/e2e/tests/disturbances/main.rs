//! Disturbances of the whole cluster, one after the other: lost machines, lost leaders, crashes, and plain idleness.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on must end")]

mod crashes;
mod faults;
mod idle;
mod leaders;
mod machines;
