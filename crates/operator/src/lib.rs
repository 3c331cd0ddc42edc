//! The operator: a program that reconciles the kinds of `valkey.io`.
//!
//! It is a library with a thin `main` so that its rules (what it may touch, what it runs with) can be read by the
//! generator of the manifests.

mod app;
pub mod args;
mod node;
pub mod rbac;

pub use app::{Error, run};
pub use node::run as run_node_controller;
