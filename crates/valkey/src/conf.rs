//! The server's configuration as data: written to a file, compared with what runs, changed while it runs.
//!
//! How a controller keeps a running server at the wanted directives without writing on every pass:
//!
//! 1. [`Directives::new`] checks and normalises what the user wrote; [`Directives::render`] is the file for the next start.
//! 2. CONFIG GET of [`Directives::names`], then [`Directives::pending`]: which differ, and which of those can be set now.
//! 3. If any can, and [`Pending::fingerprint`] is not the one recorded for this run of the server (`run_id`): one CONFIG
//!    SET, and on success record the fingerprint.
//!
//! CONFIG GET reports values in a form of its own, which [`equivalent`] knows for every directive of today. The record
//! is for tomorrow's: a value that is never reported as wanted is then written once per run, not once per pass. A server
//! that restarts has read the file, so that a new run starts with an empty record.

mod directives;
mod equivalent;
mod live;
mod memory;
mod quote;

pub use directives::{ConfError, Directives, Refusal, render};
pub use equivalent::equivalent;
pub use live::{Pending, is_file_only, is_immutable};
pub use memory::parse_memory;

/// Whether the value of a directive is a password, or holds one.
pub fn is_secret(name: &str) -> bool {
    const SECRETS: [&str; 6] =
        ["requirepass", "primaryauth", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass", "user"];
    SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

/// A value as `Debug` may show it.
fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret(name) { "[redacted]" } else { value }
}
