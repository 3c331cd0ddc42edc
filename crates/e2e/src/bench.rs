//! Measurements: how long, how much, how many.

pub mod footprint;
pub mod start;
