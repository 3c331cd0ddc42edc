//! Real servers for tests: found in the local cache, started on loopback, gone when dropped.

mod eventually;
mod ports;
mod release;
mod server;
mod table;

pub use eventually::eventually;
pub use ports::free_port;
pub use release::{Release, cache_directory};
pub use server::{Server, StartError};
pub use table::table;
