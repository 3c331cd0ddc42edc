//! Where a server is and how to be let in: plain data, filled by whoever knows.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// A server to speak to. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Who we are; without it the connection stays what the server calls `default`.
    pub credentials: Option<Credentials>,
    /// How to encrypt and whom to trust; without it the connection is plain.
    pub tls: Option<Tls>,
    /// How long we wait.
    pub deadlines: Deadlines,
}

impl Target {
    /// A server reached over plain TCP, without credentials.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::at(Endpoint::Tcp { host: host.into(), port })
    }

    /// A server reached over a unix socket, without credentials.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Endpoint::Unix(path.into()))
    }

    fn at(endpoint: Endpoint) -> Self {
        Self { endpoint, credentials: None, tls: None, deadlines: Deadlines::default() }
    }

    /// The same server, as a user; `None` is the user `default`.
    #[must_use]
    pub fn with_credentials(mut self, username: Option<&str>, password: SecretString) -> Self {
        self.credentials = Some(Credentials { username: username.map(str::to_owned), password });
        self
    }

    /// The same server, over TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The same server, with other patience.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A port of a host; the host is a name or an address (IPv6 without brackets).
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A user of the server and its password.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The user; `None` is `default`, by the one-argument form of AUTH.
    pub username: Option<String>,
    /// The password.
    pub password: SecretString,
}

/// Whom to trust, and who we are, on a TLS connection.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The roots, one or several certificates in PEM: while a CA rotates, both are needed.
    pub ca_pem: String,
    /// The certificate we show, where the server asks for one.
    pub client_identity: Option<Identity>,
    /// The name the server's certificate must carry; `None` is the host of the endpoint, name or address.
    pub server_name: Option<String>,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The leaf first, then its intermediates, in PEM.
    pub certificate_pem: String,
    /// The private key in PEM.
    pub key_pem: SecretString,
}

/// How long we wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For the way in as a whole: dialling, the TLS handshake and AUTH.
    pub connect: Duration,
    /// For each command.
    pub command: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { connect: Duration::from_secs(1), command: Duration::from_secs(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let identity = Identity { certificate_pem: "public".to_owned(), key_pem: "hush-key".into() };
        let tls = Tls { ca_pem: String::new(), client_identity: Some(identity), server_name: None };
        let target =
            Target::tcp("valkey", 6379).with_credentials(Some("bob"), "hush-password".into()).with_tls(tls);
        let shown = format!("{target:?}");
        assert!(shown.contains("bob") && shown.contains("public") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn endpoints_read_like_addresses() {
        let endpoint = |host: &str| Target::tcp(host, 6379).endpoint.to_string();
        assert_eq!(endpoint("10.0.0.1"), "10.0.0.1:6379");
        assert_eq!(endpoint("fd00::1"), "[fd00::1]:6379");
        assert_eq!(Target::unix("/run/valkey.sock").endpoint.to_string(), "/run/valkey.sock");
    }
}
