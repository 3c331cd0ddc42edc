//! The folder for what is expensive to make and does not depend on the checkout.

use std::env;
use std::path::PathBuf;

use snafu::{OptionExt, Snafu};

/// There is no place for a cache.
#[derive(Debug, Snafu)]
#[snafu(display("failed to find a folder for the cache: set VALKEY_OPERATOR_CACHE or HOME"))]
pub struct CacheError;

/// The cache of this user.
pub fn folder() -> Result<PathBuf, CacheError> {
    folder_from(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
        .context(CacheSnafu)
}

fn folder_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    variable("VALKEY_OPERATOR_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("valkey-operator")))
        .or_else(|| Some(variable("HOME")?.join(".cache/valkey-operator")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn with(set: &[(&str, &str)]) -> Option<PathBuf> {
        folder_from(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_most_specific_setting_wins() {
        let all = [("VALKEY_OPERATOR_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        assert_eq!(with(&all).as_deref(), Some(Path::new("/a")));
        assert_eq!(with(&all[1..]).as_deref(), Some(Path::new("/b/valkey-operator")));
        assert_eq!(with(&all[2..]).as_deref(), Some(Path::new("/c/.cache/valkey-operator")));
        assert_eq!(with(&[]), None);
    }
}
