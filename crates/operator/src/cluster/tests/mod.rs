//! Tests of the cluster controller: a simulated Kubernetes with simulated servers, tables and properties of the pure rooms,
//! and real servers where it matters what they do with a word.

mod carrying;
mod certificates;
mod claims;
pub(super) mod convergence;
mod crashes;
mod early_claims;
mod ended;
mod events;
mod hearsay;
mod keys;
mod kubernetes;
mod left_open;
mod loopback;
mod majority;
mod moves;
mod never_copied;
mod numbers;
mod objects;
mod obstacles;
mod passwords;
mod resizing;
mod rights;
mod rotation;
mod servers;
mod split_shards;
mod status;
mod validate;
pub(super) mod world;
mod writing;

use crate::objects::Write;

/// `verb Kind name` of a write.
fn described(write: &Write) -> String {
    match write {
        Write::Apply { wanted, create: true, .. } => format!("create {} {}", wanted.kind.name(), wanted.name),
        Write::Apply { wanted, create: false, .. } => format!("apply {} {}", wanted.kind.name(), wanted.name),
        Write::Merge { kind, name, .. } => format!("merge {} {name}", kind.name()),
        Write::RemoveItems { kind, name, .. } => format!("remove from {} {name}", kind.name()),
        Write::Delete { kind, name, .. } => format!("delete {} {name}", kind.name()),
    }
}
