//! Tests of the node controller: builders of worlds, then tables, properties and snapshots of the pure rooms.

mod config;
mod diagnose;
mod drift;
mod kubernetes;
mod objects;
mod pods;
mod roll;
mod validate;
mod world;
