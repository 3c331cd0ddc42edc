//! What whole-system tests are made of: a world to work in, ways to wait, faults, invariants, and the witness that checks
//! what servers acknowledged. Everything here ends a test by a panic that says what was wrong: it is test code throughout.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on must end")]

pub mod access;
pub mod bench;
pub mod changes;
pub mod clusters;
pub mod crash;
pub mod creation;
pub mod failovers;
pub mod faults;
pub mod invariants;
pub mod lives;
pub mod nodes;
pub mod objects;
pub mod operator;
pub mod rivals;
pub mod wait;
pub mod witness;
pub mod world;

pub use world::World;
