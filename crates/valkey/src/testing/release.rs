//! The releases tests run on, and where their programs are.

use std::env;
use std::path::PathBuf;

use crate::Version;

/// A release of Valkey that every test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Release {
    /// The oldest that is supported.
    V8_1,
    /// The newest that is known.
    V9_1,
}

impl Release {
    /// All of them, oldest first.
    pub const ALL: [Self; 2] = [Self::V8_1, Self::V9_1];

    /// Major and minor; the patch is whatever the image holds.
    pub const fn version(self) -> Version {
        match self {
            Self::V8_1 => Version::new(8, 1, 0),
            Self::V9_1 => Version::new(9, 1, 0),
        }
    }

    /// A program of the release: `valkey-server`, `valkey-cli` and so on. It may not be there.
    pub fn program(self, name: &str) -> PathBuf {
        let Version { major, minor, .. } = self.version();
        cache_directory().join("rootfs").join(format!("valkey-{major}.{minor}")).join("bin").join(name)
    }
}

/// Where downloads are kept: `$VALKEY_OPERATOR_CACHE`, else `valkey-operator` in the user's cache.
pub fn cache_directory() -> PathBuf {
    let from = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("VALKEY_OPERATOR_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("valkey-operator")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/valkey-operator")))
        .unwrap_or_else(|| PathBuf::from(".cache/valkey-operator"))
}
