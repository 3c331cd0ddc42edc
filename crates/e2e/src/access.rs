//! How the servers of a cluster are reached, and as whom.

use std::fmt;
use std::str::FromStr;

use secrecy::SecretString;
use snafu::{OptionExt as _, Snafu};
use valkey::{Credentials, Deadlines, Target, Tls};

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Name or address, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// A port of a host.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Not an address.
#[derive(Debug, PartialEq, Eq, Snafu)]
#[snafu(display("failed to read {text:?} as host:port"))]
pub struct AddressError {
    text: String,
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `10.0.0.1:6379`, `[fd00::1]:6379` and, as servers write it, `fd00::1:6379`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').context(AddressSnafu { text })?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok().filter(|port| *port != 0);
        if host.is_empty() {
            return AddressSnafu { text }.fail();
        }
        Ok(Self::new(host, port.context(AddressSnafu { text })?))
    }
}

/// The way into a cluster. `Debug` shows no secret.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Servers to ask first; any that answers will do.
    pub seeds: Vec<Address>,
    /// Who we are on every server; without it the user `default`, who needs no password.
    pub credentials: Option<Credentials>,
    /// How every connection is encrypted; without it they are plain.
    pub tls: Option<Tls>,
}

impl Access {
    /// A cluster that lets everybody in.
    pub fn open(seeds: impl IntoIterator<Item = Address>) -> Self {
        Self { seeds: seeds.into_iter().collect(), ..Self::default() }
    }

    /// The same cluster, as a user; `None` is the user `default`.
    #[must_use]
    pub fn with_credentials(mut self, username: Option<&str>, password: SecretString) -> Self {
        self.credentials = Some(Credentials { username: username.map(str::to_owned), password });
        self
    }

    /// The same cluster, over TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// One server of the cluster.
    pub fn target(&self, address: &Address, deadlines: Deadlines) -> Target {
        let mut target = Target::tcp(&address.host, address.port).with_deadlines(deadlines);
        target.credentials.clone_from(&self.credentials);
        target.tls.clone_from(&self.tls);
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_and_servers_write_them() {
        for (text, host) in [
            ("10.0.0.1:6379", "10.0.0.1"),
            ("valkey-demo-client.default.svc:6379", "valkey-demo-client.default.svc"),
            ("[fd00::1]:6379", "fd00::1"),
            ("fd00::1:6379", "fd00::1"),
        ] {
            assert_eq!(text.parse(), Ok(Address::new(host, 6379)), "{text}");
        }
        assert_eq!(Address::new("fd00::1", 6379).to_string(), "[fd00::1]:6379");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "host", ":6379", "host:", "host:0", "host:70000", "host:port"] {
            text.parse::<Address>().expect_err(text);
        }
    }
}
