//! The program around real servers of every supported release.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must end")]

mod real_server {
    mod gate;
    mod hold;
    mod init;
    mod ready;
    mod sidecar;
    mod takeover;
}
mod support;
