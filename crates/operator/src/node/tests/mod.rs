//! Tests of the node controller: builders of worlds, then tables, properties and snapshots of the pure rooms.

mod diagnose;
mod drift;
mod kubernetes;
mod objects;
mod pods;
mod validate;
mod world;
