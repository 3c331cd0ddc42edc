//! Which release the server is. A directive that a server does not know ends it at its start, so what only newer ones
//! know is added here, where the program itself can be asked.

use std::process::{Command, Stdio};

use valkey::Version;

use crate::say;

/// The release of a server program; `None` where it does not say so in a way we understand.
pub(super) fn of(program: &str) -> Option<Version> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let version = output.ok().and_then(|output| parse(&String::from_utf8_lossy(&output.stdout)));
    if version.is_none() {
        say(&format!("{program} does not tell its release: it is started with what every release knows"));
    }
    version
}

/// Reads `Valkey server v=9.1.2 sha=00000000:0 …`.
fn parse(text: &str) -> Option<Version> {
    let word = text.split_ascii_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Version::parse(word)
}

/// Directives for this release, besides those of every release.
pub(super) fn directives(release: Option<Version>) -> Vec<(&'static str, &'static str)> {
    match release {
        // A primary that is told to stop hands over to a replica that has everything, before it goes.
        Some(release) if release.supports_shutdown_failover() => vec![("shutdown-on-sigterm", "failover")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_what_servers_print() {
        let printed = "Valkey server v=9.1.2 sha=00000000:0 malloc=libc bits=64 build=1\n";
        assert_eq!(parse(printed), Some(Version::new(9, 1, 2)));
        assert_eq!(parse("Server v=8.1.1 sha=0"), Some(Version::new(8, 1, 1)));
        assert_eq!(parse("something else"), None);
    }

    #[test]
    fn only_releases_that_know_how_hand_over_when_they_stop() {
        assert!(directives(Some(Version::new(8, 1, 9))).is_empty());
        assert!(directives(None).is_empty());
        assert_eq!(directives(Some(Version::new(9, 0, 0))), [("shutdown-on-sigterm", "failover")]);
    }
}
