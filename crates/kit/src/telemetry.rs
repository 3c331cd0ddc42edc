//! Logs: JSON lines for machines, coloured text on a terminal, one level switch for both.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Send logs to standard error. `level` is a filter such as `info` or `info,kube=debug`; one that cannot be read is
/// replaced by `info`, because a program without logs is worse than one with the wrong level.
pub fn init(level: &str) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.init();
    } else {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
    }
}

/// An error with all its causes in one line, for logs and conditions.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        // Some libraries repeat their cause in their own message.
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
