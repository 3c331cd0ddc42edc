//! ValkeyClusters on a real cluster, each test in a namespace of its own, side by side.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on must end")]

mod agents;
mod certificates;
mod clients;
mod config;
mod drift;
mod exporter;
mod formation;
mod hostile;
mod objects;
mod ownership;
mod placement;
mod rotation;
mod shapes;
mod tls;
mod users;
mod users_refused;
