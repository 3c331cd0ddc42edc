//! The operator: a program that reconciles the kinds of `valkey.io`.
//!
//! It is a library with a thin `main` so that its rules (what it may touch, what it runs with) can be read by the
//! generator of the manifests.

mod agents;
mod app;
pub mod args;
mod certificates;
mod cluster;
mod controllers;
mod heartbeats;
mod hooks;
mod leader_label;
mod node;
mod objects;
mod overlay;
mod pass;
pub mod rbac;
mod references;
mod settings;
mod violation;
mod watch;

pub use app::{Error, run};
pub use controllers::run as run_controllers;
pub use heartbeats::Reception;
pub use hooks::AfterCommand;
pub use settings::Settings;
