//! Measurements: how long, how much, how many.

pub mod clusters;
pub mod footprint;
pub mod scale;
pub mod start;
