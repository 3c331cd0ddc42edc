//! Storage for the local cluster: volumes that are really as large as they say, really full when they are full, and
//! that grow while they are in use.
//!
//! A volume is a file with a filesystem of its own, mounted through a loop device and offered to one node. All state is in
//! the cluster's objects and in the files, so the program that looks after them can be started again at any time.

mod disks;
mod error;
mod mounts;
mod objects;
mod plan;
mod provisioner;
mod quantity;
mod steps;

pub use disks::{Disk, Disks, cleanup, remount};
pub use error::StorageError;
pub use objects::{PROVISIONER, STORAGE_CLASS};
pub use provisioner::run;
pub use quantity::{QuantityError, bytes};
