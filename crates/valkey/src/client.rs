//! One connection to one server: how it is dialled, what is asked, and how it fails.

mod acl_commands;
pub mod certificate;
mod cluster_commands;
mod commands;
pub mod connection;
mod dial;
pub mod error;
pub(crate) mod reply;
pub mod target;
mod tls;

pub use cluster_commands::{FailoverMode, SetSlot};
pub use commands::{Section, Shutdown};
/// What [`Connection::raw`](connection::Connection::raw) answers.
pub use redis::Value;
