//! The server's configuration as data: written to a file, compared with what runs, changed while it runs.
//!
//! [`Directives::new`] checks and normalises what the user wrote; [`Directives::render`] is the file for the next start.
//! CONFIG GET reports values in a form of its own: [`equivalent`] tells whether it is what was wanted. [`is_immutable`] and
//! [`is_file_only`] tell what a running server cannot change.

mod directives;
mod equivalent;
mod live;
mod memory;
mod quote;

pub use directives::{ConfError, Directives, Refusal, render};
pub use equivalent::equivalent;
pub use live::{is_file_only, is_immutable};
pub use memory::parse_memory;
pub use quote::split as words_of_line;

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
