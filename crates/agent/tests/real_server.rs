//! The program around real servers of every supported release.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must end")]

mod real_server {
    mod gate;
    mod grpc;
    mod hold;
    mod init;
    mod orders;
    mod ready;
    mod reunion;
    mod sidecar;
    mod succession;
    mod takeover;
}
mod support;
