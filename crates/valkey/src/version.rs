//! The version a server reports, and whether we support it.

use std::fmt;

use crate::info::Server;

/// The release of a server. Pre-release suffixes are dropped: `9.1.0-rc1` orders as `9.1.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number, 0 where the text names none.
    pub patch: u32,
}

impl Version {
    /// The oldest release that is supported.
    pub const MINIMUM: Self = Self::new(8, 1, 0);

    /// A version from its numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `9.1.2`, `9.1`, `v9.1.2`, `9.1.0-rc1`; `None` where not even major and minor can be read.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut parts = numbers.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let patch = match parts.next() {
            None | Some("") => 0,
            Some(patch) => patch.parse().ok()?,
        };
        Some(Self { major, minor, patch })
    }

    /// What the development branch of Valkey calls itself: newer than any release, and no release.
    pub fn is_development(self) -> bool {
        self.major == 255
    }

    /// `shutdown-on-sigterm failover` and `SHUTDOWN FAILOVER`; an older server dies at start on the value.
    pub fn supports_shutdown_failover(self) -> bool {
        self >= Self::new(9, 0, 0)
    }

    /// `CLUSTER MIGRATESLOTS`; an older server needs `SETSLOT` and `MIGRATE`.
    pub fn supports_atomic_slot_migration(self) -> bool {
        self >= Self::new(9, 0, 0)
    }

    /// `tls-auto-reload-interval`; an older server dies at start on the directive.
    pub fn supports_tls_auto_reload(self) -> bool {
        self >= Self::new(9, 1, 0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Whether a server is one we know how to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Support {
    /// Valkey, of the minimum version or later.
    Supported,
    /// Valkey, but older than the minimum.
    TooOld,
    /// Not Valkey, a development build, or a version that cannot be read: reported, never guessed.
    Unknown,
}

impl Support {
    /// Judges a server by what it says about itself.
    pub fn of(server: &Server) -> Self {
        match server.version {
            Some(version) if !server.is_valkey || version.is_development() => Self::Unknown,
            Some(version) if version < Version::MINIMUM => Self::TooOld,
            Some(_) => Self::Supported,
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Info;

    #[test]
    fn reads_what_servers_say() {
        for (text, expected) in [
            ("9.1.2", Some(Version::new(9, 1, 2))),
            ("9.1", Some(Version::new(9, 1, 0))),
            ("v8.1.4\r", Some(Version::new(8, 1, 4))),
            ("9.1.0-rc1", Some(Version::new(9, 1, 0))),
            ("255.255.255", Some(Version::new(255, 255, 255))),
            ("9", None),
            ("unstable", None),
            ("", None),
            ("99999999999999999999.1.1", None),
        ] {
            assert_eq!(Version::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn orders_by_number_not_by_text() {
        assert!(Version::new(10, 0, 0) > Version::new(9, 1, 12));
        assert!(Version::new(8, 1, 10) > Version::new(8, 1, 9));
    }

    #[test]
    fn only_valkey_of_a_known_release_is_supported() {
        let support = |text: &str| Support::of(&Info::parse(text).server());
        assert_eq!(
            support("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.4"),
            Support::Supported
        );
        assert_eq!(support("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.0.9"), Support::TooOld);
        assert_eq!(support("redis_version:7.2.9\nserver_name:valkey"), Support::TooOld);
        assert_eq!(support("redis_version:8.2.0"), Support::Unknown);
        assert_eq!(support("server_name:valkey\nvalkey_version:255.255.255"), Support::Unknown);
        assert_eq!(support(""), Support::Unknown);
    }
}
