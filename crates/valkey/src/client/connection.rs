//! A connection to one server: every call has a deadline, and the task behind it ends with it.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisConnectionInfo, RedisError, ServerError, Value};
use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::dial::{Allowance, Stream, dial};
use super::error::Error;
use super::target::{Credentials, Target};
use super::tls::TlsError;

/// An open and authenticated connection.
///
/// Commands may be sent from several tasks at once. After a [`Error::Timeout`] the connection stays usable: a late
/// answer is matched to the command that nobody waits for any more.
#[derive(Debug)]
pub struct Connection {
    endpoint: String,
    deadline: Duration,
    stream: MultiplexedConnection,
    // Declared last: the queue is closed before its reader is stopped.
    _driver: Driver,
}

/// The task that moves bytes; it ends with its connection even if the server keeps a command unanswered.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A command ready to be sent.
pub(super) struct Request<'a> {
    /// What errors call it: the command, at most with the name of a user.
    pub(super) name: &'a str,
    /// The command.
    pub(super) command: Cmd,
    /// Arguments that must not come back in an error: a server repeats the arguments of a command it does not know.
    pub(super) secrets: Vec<&'a SecretString>,
}

impl Connection {
    /// Dials, shakes hands and authenticates, all within the deadline for connecting.
    pub async fn open(target: &Target) -> Result<Self, Error> {
        let allowance = Allowance::new(target.deadlines.connect);
        let stream = dial(target, &allowance).await?;
        let connection = Self::over(target, stream).await?;
        if let Some(credentials) = &target.credentials {
            allowance.spend(&target.endpoint, "AUTH", connection.authenticate(credentials)).await?;
        }
        Ok(connection)
    }

    async fn over(target: &Target, stream: Box<dyn Stream>) -> Result<Self, Error> {
        let endpoint = target.endpoint.to_string();
        // The library gets neither credentials nor a timeout: both are ours, so that failures are told apart here. It
        // introduces itself with CLIENT SETINFO unless told not to, which a restricted user may not be allowed.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let (stream, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| failure(&endpoint, "CONNECT", error, &[]))?;
        let driver = Driver(tokio::spawn(driver));
        Ok(Self { endpoint, deadline: target.deadlines.command, stream, _driver: driver })
    }

    async fn authenticate(&self, credentials: &Credentials) -> Result<(), Error> {
        let mut command = redis::cmd("AUTH");
        if let Some(username) = &credentials.username {
            command.arg(username);
        }
        command.arg(credentials.password.expose_secret());
        let request = Request { name: "AUTH", command, secrets: vec![&credentials.password] };
        // The allowance for connecting is the deadline here, whichever of the two is longer.
        match self.exchange(request).await {
            Ok(_) => Ok(()),
            // A server without a password refuses one: to the caller that is the wrong password too.
            Err(Error::Server { endpoint, message, .. }) => Err(Error::WrongPassword { endpoint, message }),
            Err(error) => Err(error),
        }
    }

    /// Where the server listens.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) async fn send(&self, request: Request<'_>) -> Result<Value, Error> {
        let name = request.name.to_owned();
        timeout(self.deadline, self.exchange(request)).await.unwrap_or_else(|_| {
            Err(Error::Timeout { endpoint: self.endpoint.clone(), command: name, after: self.deadline })
        })
    }

    async fn exchange(&self, request: Request<'_>) -> Result<Value, Error> {
        let Request { name, command, secrets } = request;
        match self.stream.clone().send_packed_command(&command).await {
            Ok(Value::ServerError(error)) => Err(refusal(&self.endpoint, name, &error, &secrets)),
            Ok(value) => Ok(value),
            Err(error) => Err(failure(&self.endpoint, name, error, &secrets)),
        }
    }

    pub(super) fn protocol(&self, command: &str, detail: &str) -> Error {
        Error::Protocol {
            endpoint: self.endpoint.clone(),
            command: command.to_owned(),
            detail: detail.to_owned(),
        }
    }
}

/// Tells failures of the library apart: the server spoke, the line broke, or the reply is nonsense.
fn failure(endpoint: &str, command: &str, error: RedisError, secrets: &[&SecretString]) -> Error {
    if let Some(code) = error.code() {
        let message = error.detail().unwrap_or_default();
        return classify(endpoint, command, code, message, secrets);
    }
    if let Some(source) = tls_alert(&error) {
        return Error::Tls { endpoint: endpoint.to_owned(), source: TlsError::Rejected { source } };
    }
    let (endpoint, command) = (endpoint.to_owned(), command.to_owned());
    match error.kind() {
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
            Error::Protocol { endpoint, command, detail: error.to_string() }
        }
        _ => Error::Disconnected { endpoint, command, source: error },
    }
}

fn refusal(endpoint: &str, command: &str, error: &ServerError, secrets: &[&SecretString]) -> Error {
    classify(endpoint, command, error.code(), error.details().unwrap_or_default(), secrets)
}

fn classify(endpoint: &str, command: &str, code: &str, message: &str, secrets: &[&SecretString]) -> Error {
    let message = without(message, secrets);
    let (endpoint, command) = (endpoint.to_owned(), command.to_owned());
    match code {
        "NOAUTH" => Error::AuthRequired { endpoint, command },
        "WRONGPASS" => Error::WrongPassword { endpoint, message },
        "NOPERM" => Error::NoPermission { endpoint, command, message },
        "LOADING" => Error::Loading { endpoint, command },
        "BUSY" => Error::Busy { endpoint, command, message },
        "MASTERDOWN" => Error::PrimaryDown { endpoint, command },
        code => Error::Server { endpoint, command, code: code.to_owned(), message },
    }
}

fn without(message: &str, secrets: &[&SecretString]) -> String {
    secrets
        .iter()
        .map(|secret| secret.expose_secret())
        .filter(|secret| !secret.is_empty())
        .fold(message.to_owned(), |message, secret| {
            without_start(message.replace(secret, "[redacted]"), secret)
        })
}

/// A server that repeats arguments stops after so many characters, which may be in the middle of a secret.
fn without_start(message: String, secret: &str) -> String {
    let said = message.trim_end_matches([' ', '\'']);
    let starts = secret.char_indices().rev().map(|(end, _)| &secret[..end]).filter(|start| !start.is_empty());
    let rest = starts.filter_map(|start| said.strip_suffix(start)).find(|rest| rest.ends_with('\''));
    rest.map(|rest| format!("{rest}[redacted]'")).unwrap_or(message)
}

/// The alert by which a TLS 1.3 server turns a client away once the handshake is over for the client.
fn tls_alert(error: &RedisError) -> Option<rustls::Error> {
    let cause = error.source()?;
    let cause = match cause.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>() {
        Some(shared) => shared.downcast_ref::<io::Error>()?,
        None => cause.downcast_ref::<io::Error>()?,
    };
    cause.get_ref()?.downcast_ref::<rustls::Error>().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(code: &str) -> Error {
        classify("10.0.0.1:6379", "PING", code, "the server's words", &[])
    }

    #[test]
    fn refusals_are_told_apart_by_their_code() {
        for (code, auth, transient) in [
            ("NOAUTH", true, false),
            ("WRONGPASS", true, false),
            ("NOPERM", true, false),
            ("LOADING", false, true),
            ("BUSY", false, true),
            ("MASTERDOWN", false, true),
            ("CLUSTERDOWN", false, true),
            ("ERR", false, false),
        ] {
            let error = judge(code);
            assert_eq!((error.is_auth(), error.is_transient()), (auth, transient), "{error}");
            assert!(error.to_string().contains("10.0.0.1:6379"), "{error}");
        }
    }

    #[test]
    fn a_server_that_repeats_a_password_is_not_quoted() {
        let secret = SecretString::from("hush");
        let error = classify(
            "s",
            "AUTH",
            "ERR",
            "unknown command 'AUTH', with args beginning with: 'hush'",
            &[&secret],
        );
        assert!(!error.to_string().contains("hush") && !format!("{error:?}").contains("hush"), "{error:?}");
        assert_eq!(without("nothing to hide", &[&SecretString::from("")]), "nothing to hide");
        for (said, expected) in [
            ("args beginning with: 'SET' 'hus' ", "args beginning with: 'SET' '[redacted]'"),
            ("args beginning with: 'SET' 'h", "args beginning with: 'SET' '[redacted]'"),
            ("args beginning with: 'SETh' ", "args beginning with: 'SETh' "),
            ("args beginning with: 'SET' ", "args beginning with: 'SET' "),
        ] {
            assert_eq!(without(said, &[&secret]), expected);
        }
    }
}
