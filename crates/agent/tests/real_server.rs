//! The program around real servers of every supported release.

mod real_server {
    mod gate;
    mod hold;
    mod init;
    mod ready;
    mod takeover;
}
mod support;
