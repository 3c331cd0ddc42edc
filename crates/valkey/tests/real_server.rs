//! The client and the tables of this crate against real servers of every supported release.

mod real_server {
    mod access;
    mod certificate;
    mod cluster;
    mod commands;
    mod configuration;
    mod deadlines;
    mod encryption;
    mod permissions;
    mod replication;
    mod resharding;
    mod topology;
    mod users;
}
mod support;
