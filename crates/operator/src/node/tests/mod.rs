//! Tests of the node controller: builders of worlds, then tables, properties and snapshots of the pure rooms.

mod acting;
mod config;
mod convergence;
mod diagnose;
mod drift;
mod events;
mod kubernetes;
mod objects;
mod observing;
mod pods;
mod roll;
mod status;
mod validate;
mod world;
