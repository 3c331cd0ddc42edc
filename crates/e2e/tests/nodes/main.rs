//! ValkeyNodes on a real cluster, each test in a namespace of its own, side by side.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on must end")]

mod access;
mod admission;
mod config;
mod drift;
mod failures;
mod lifecycle;
mod ownership;
mod roles;
mod rolls;
mod volumes;
mod workloads;
