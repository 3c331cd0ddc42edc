//! Passwords as servers keep them: SHA-256 in hexadecimal.

use std::fmt::Write as _;

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest as _, Sha256};

/// The hash of a password, 64 hexadecimal digits.
pub fn hash_password(password: &SecretString) -> String {
    sha256(password.expose_secret())
}

/// Whether a value is a hash already: `#` and 64 hexadecimal digits.
pub fn is_hash(value: &str) -> bool {
    value
        .strip_prefix('#')
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Longest password, in bytes: a server hangs up on clients that send more before they are let in.
pub const PASSWORD_MAX: usize = 16384;

/// Why nobody could log in with a password, or not with the one that was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum PasswordFlaw {
    /// There is nothing.
    #[strum(serialize = "is empty")]
    Empty,
    /// No client could send it.
    #[strum(serialize = "is longer than the 16384 bytes that servers take from a client")]
    TooLong,
    /// More than one line, or bytes that people and programs lose on the way.
    #[strum(serialize = "is not one line of text")]
    ControlCharacter,
    /// It was meant as a hash, and would be taken for a password.
    #[strum(
        serialize = "begins with '#' like a SHA-256, but is not followed by exactly 64 hexadecimal digits"
    )]
    HashLike,
}

/// What is wrong with a password, or with the hash of one, that somebody gave.
pub fn flaw_of_password(value: &SecretString) -> Option<PasswordFlaw> {
    let text = value.expose_secret();
    if text.is_empty() {
        Some(PasswordFlaw::Empty)
    } else if text.len() > PASSWORD_MAX {
        Some(PasswordFlaw::TooLong)
    } else if text.chars().any(char::is_control) {
        Some(PasswordFlaw::ControlCharacter)
    } else if text.strip_prefix('#').is_some_and(is_near_hash) {
        Some(PasswordFlaw::HashLike)
    } else {
        None
    }
}

/// As many characters as a hash but other ones, or the same characters but too few or too many of them.
fn is_near_hash(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if text.len() == 64 { !digits } else { digits && text.len() >= 32 }
}

/// The hash of a value that is either a password or a hash of one. Servers take lower-case digits only.
pub(super) fn hash_of(value: &SecretString) -> String {
    let text = value.expose_secret();
    if is_hash(text) { text[1..].to_ascii_lowercase() } else { hash_password(value) }
}

pub(super) fn sha256(text: &str) -> String {
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_hash_is_the_known_one() {
        assert_eq!(hash_password(&"".into()), EMPTY);
        assert_eq!(
            hash_password(&"x".into()),
            "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
        );
    }

    #[test]
    fn only_hashes_are_taken_for_hashes() {
        let hash = format!("#{EMPTY}");
        assert!(is_hash(&hash) && is_hash(&hash.to_uppercase()));
        assert_eq!(hash_of(&hash.to_uppercase().into()), EMPTY);
        for password in ["", "#", EMPTY, &hash[..64], &format!("{hash}0"), &hash.replace('e', "g"), "#é"] {
            assert!(!is_hash(password), "{password}");
            assert_eq!(hash_of(&password.into()), sha256(password));
        }
    }

    #[test]
    fn flaws_of_passwords() {
        let hash = format!("#{EMPTY}");
        for good in ["x", "#", "#beef", "pass word", "pässwörd", &hash, &"x".repeat(PASSWORD_MAX)] {
            assert_eq!(flaw_of_password(&good.into()), None, "{good}");
        }
        for (bad, flaw) in [
            ("", PasswordFlaw::Empty),
            (&"x".repeat(PASSWORD_MAX + 1), PasswordFlaw::TooLong),
            ("a\nb", PasswordFlaw::ControlCharacter),
            ("a\0", PasswordFlaw::ControlCharacter),
            (&hash[..64], PasswordFlaw::HashLike),
            (&format!("{hash}0"), PasswordFlaw::HashLike),
            (&hash.replace('e', "g"), PasswordFlaw::HashLike),
        ] {
            assert_eq!(flaw_of_password(&bad.into()), Some(flaw), "{bad:?}");
        }
        assert!(PasswordFlaw::TooLong.to_string().contains(&PASSWORD_MAX.to_string()));
    }
}
