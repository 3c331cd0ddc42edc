//! The users file as bytes: told apart by fingerprint, and kept from a server that it would end.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use valkey::acl::has_open_selector;

use crate::secrets::AGENT;

/// The SHA-256 of a file, in hexadecimal digits.
pub(crate) fn fingerprint(text: &str) -> String {
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        // Writing to a String cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// The first line with a selector that begins and does not end: servers (8.1 and 9.1 do) crash on it instead of refusing
/// the file, at their start and on ACL LOAD alike.
pub(crate) fn line_with_open_selector(text: &str) -> Option<usize> {
    // The first two words are `user` and its name.
    let is_open = |line: &str| has_open_selector(line.trim().split(' ').skip(2));
    text.lines().position(is_open).map(|index| index + 1)
}

/// Whether the agent's user may change directives of the server.
pub(crate) fn lets_the_agent_set(text: &str) -> bool {
    let rules =
        text.lines().find_map(|line| line.strip_prefix("user ")?.strip_prefix(AGENT)?.strip_prefix(' '));
    rules
        .is_some_and(|rules| rules.split(' ').any(|rule| ["+config|set", "+config", "+@all"].contains(&rule)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_may_do_is_read_from_its_line() {
        for (text, may) in [
            ("user _agent on -@all +ping +config|set", true),
            ("user a on\nuser _agent on +@all", true),
            ("user _agent on -@all +ping +config|get", false),
            ("user _agents on +@all\nuser b on +config|set", false),
            ("", false),
        ] {
            assert_eq!(lets_the_agent_set(text), may, "{text:?}");
        }
        let ours = valkey::acl::SystemUser::Agent;
        assert!(lets_the_agent_set(&format!("user {} on {}", ours.name(), ours.rules())));
    }

    #[test]
    fn the_fingerprint_is_that_of_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fingerprint(""), empty);
        assert_ne!(fingerprint("user bob on"), empty);
    }

    #[test]
    fn open_selectors_are_found_by_their_line() {
        for (text, line) in [
            ("", None),
            ("user a on ~* +@all\nuser b on (~x +get) (~y +set)\n", None),
            ("user a on ()\r\n", None),
            ("user a on ~x)\n", None),
            ("user (a on\n", None),
            ("user a on (~x\n", Some(1)),
            ("user a on\n\nuser b on (~x +get) (~y", Some(3)),
        ] {
            assert_eq!(line_with_open_selector(text), line, "{text:?}");
        }
    }
}
