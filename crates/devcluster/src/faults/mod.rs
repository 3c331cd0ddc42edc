//! Breaks things on purpose, and mends them: processes that stand still, networks that lose packets, disks that are full.
//!
//! Every fault is written down before it is put in place. Whoever comes after a test that was killed can undo all of
//! them with [`Faults::heal_all`].

mod containers;
mod disk;
mod error;
mod freezer;
mod network;
mod process;
mod record;

pub use containers::{ContainerGroup, container_id};
pub use disk::Fill;
pub use error::FaultError;
pub use freezer::Freeze;
pub use network::{Cut, Partition, Side};
pub use process::Process;
pub use record::{ActiveFault, Fault, Faults};
