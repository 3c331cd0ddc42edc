//! Speaking to and reasoning about Valkey servers: typed client, INFO and CLUSTER parsers, configuration, users, slots.

pub mod acl;
pub mod client;
pub mod cluster;
pub mod conf;
pub mod info;
pub mod role;
pub mod slots;
#[cfg(feature = "testing")]
pub mod testing;
pub mod version;

pub use client::connection::Connection;
pub use client::error::Error;
pub use client::target::{Credentials, Deadlines, Endpoint, Identity, Target, Tls};
pub use info::Info;
pub use slots::SlotRange;
pub use version::{Support, Version};
