//! A real multi-node Kubernetes on one machine, for demos, tests and benchmarks.

pub mod command;
pub mod faults;
pub mod images;
pub mod storage;
