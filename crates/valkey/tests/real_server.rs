//! The client and the tables of this crate against real servers of every supported release.

mod real_server {
    pub mod access;
    pub mod cluster;
    pub mod commands;
    pub mod configuration;
    pub mod deadlines;
    pub mod encryption;
    pub mod replication;
}
mod support;
