//! The objects of a cluster, built from its validated spec. Everything here is pure and cannot fail.

mod budget;
mod certificates;
mod meta;
mod node;
mod pod;
mod scheduling;
mod secrets;
mod services;

pub(super) use budget::budget;
pub(super) use certificates::{bundle, node_binding, operator_binding};
pub(super) use meta::Identity;
pub(super) use node::node;
pub(super) use secrets::{USERS_FILE, passwords, users_file};
pub(super) use services::{client_service, headless_service};
