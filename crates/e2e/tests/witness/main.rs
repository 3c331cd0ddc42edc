//! The witness and the invariants, tried on real servers: a meter that cannot fail measures nothing.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on must end")]

mod command;
mod encryption;
mod loopback;
mod measures;
mod moves;

use std::time::Duration;

/// A busy machine is no failure of the servers.
const PATIENCE: Duration = Duration::from_secs(20);
