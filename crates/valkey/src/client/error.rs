//! What can go wrong between us and a server, told apart by what a caller does next.

use std::io;
use std::time::Duration;

use redis::RedisError;
use snafu::Snafu;

use super::tls::TlsError;

/// A failed conversation. No variant ever holds a password: messages of the server are cleaned before they get here.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub(super)))]
pub enum Error {
    /// Nobody could be reached.
    #[snafu(display("failed to connect to {endpoint}: {reason}"))]
    Connect {
        /// Where.
        endpoint: String,
        /// Why, in one word.
        reason: ConnectFailure,
        /// Why, in the words of the system.
        source: io::Error,
    },
    /// The TLS handshake failed: on our side, on theirs, or in what we were given for it.
    #[snafu(display("failed to establish TLS with {endpoint}"))]
    Tls {
        /// With whom.
        endpoint: String,
        /// Why.
        source: TlsError,
    },
    /// The server wants a password and got none (NOAUTH).
    #[snafu(display("failed to run {command} on {endpoint}: authentication is required"))]
    AuthRequired {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
    },
    /// The server refused the user or the password (WRONGPASS, and AUTH where no password is set).
    #[snafu(display("failed to authenticate on {endpoint}: {message}"))]
    WrongPassword {
        /// By whom.
        endpoint: String,
        /// The server's words.
        message: String,
    },
    /// The user may not do this (NOPERM).
    #[snafu(display("failed to run {command} on {endpoint}: {message}"))]
    NoPermission {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
        /// The server's words.
        message: String,
    },
    /// The server reads its data from disk (LOADING).
    #[snafu(display("failed to run {command} on {endpoint}: the server is loading its data"))]
    Loading {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
    },
    /// A script or module occupies the server (BUSY).
    #[snafu(display("failed to run {command} on {endpoint}: {message}"))]
    Busy {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
        /// The server's words.
        message: String,
    },
    /// A replica without its primary, which may not serve stale data (MASTERDOWN).
    #[snafu(display("failed to run {command} on {endpoint}: the link to the primary is down"))]
    PrimaryDown {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
    },
    /// The server did not answer in time. Whether it did what was asked is not known.
    #[snafu(display("failed to run {command} on {endpoint}: no answer within {after:?}"))]
    Timeout {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
        /// How long we waited.
        after: Duration,
    },
    /// The connection broke. Whether the server did what was asked is not known.
    #[snafu(display("failed to run {command} on {endpoint}: the connection is lost"))]
    Disconnected {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
        /// Why, in the words of the system.
        source: RedisError,
    },
    /// The server refused for a reason of its own.
    #[snafu(display("failed to run {command} on {endpoint}: {code} {message}"))]
    Server {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
        /// The first word of the reply: `ERR`, `CLUSTERDOWN` and so on.
        code: String,
        /// The server's words.
        message: String,
    },
    /// The reply makes no sense: not RESP, or not the shape this command has.
    #[snafu(display("failed to understand the reply of {endpoint} to {command}: {detail}"))]
    Protocol {
        /// By whom.
        endpoint: String,
        /// What was asked.
        command: String,
        /// What is wrong with it.
        detail: String,
    },
}

/// Why nobody could be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum ConnectFailure {
    /// The host is there and nobody listens.
    Refused,
    /// The host is not there, or its name does not resolve.
    Unreachable,
    /// Nobody answered in time.
    Timeout,
}

impl Error {
    /// The door is closed to us: other credentials or other rights are needed, waiting does not help.
    pub fn is_auth(&self) -> bool {
        matches!(self, Self::AuthRequired { .. } | Self::WrongPassword { .. } | Self::NoPermission { .. })
    }

    /// Asking again later may work without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Loading { .. }
            | Self::Busy { .. }
            | Self::PrimaryDown { .. }
            | Self::Timeout { .. }
            | Self::Disconnected { .. } => true,
            Self::Server { code, .. } => {
                // IOERR is how MIGRATE says that it did not reach the other server.
                matches!(code.as_str(), "TRYAGAIN" | "CLUSTERDOWN" | "MISCONF" | "IOERR")
            }
            Self::Tls { .. }
            | Self::AuthRequired { .. }
            | Self::WrongPassword { .. }
            | Self::NoPermission { .. }
            | Self::Protocol { .. } => false,
        }
    }

    /// The server's own words, where it spoke.
    pub fn server_message(&self) -> Option<&str> {
        match self {
            Self::WrongPassword { message, .. }
            | Self::NoPermission { message, .. }
            | Self::Busy { message, .. }
            | Self::Server { message, .. } => Some(message),
            _ => None,
        }
    }
}
