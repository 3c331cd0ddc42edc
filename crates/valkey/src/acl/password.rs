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
}
