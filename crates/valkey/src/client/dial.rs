//! Opening the stream a connection runs on.

use std::io;
use std::time::Duration;

use snafu::ResultExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::error::{ConnectFailure, Error, TlsSnafu};
use super::target::{Endpoint, Target};
use super::tls::{HandshakeSnafu, UnixSocketSnafu, client_config, server_name};

/// Whatever RESP can run on.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The time for the way in as a whole, spent step by step so that an error can name the step that used it up.
pub(super) struct Allowance {
    total: Duration,
    end: Instant,
}

impl Allowance {
    pub(super) fn new(total: Duration) -> Self {
        Self { total, end: Instant::now() + total }
    }

    pub(super) async fn spend<T>(
        &self,
        endpoint: &Endpoint,
        step: &str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        timeout_at(self.end, work).await.unwrap_or_else(|_| {
            let message = format!("not through with {step} within {:?}", self.total);
            Err(Error::Connect {
                endpoint: endpoint.to_string(),
                reason: ConnectFailure::Timeout,
                source: io::Error::new(io::ErrorKind::TimedOut, message),
            })
        })
    }
}

/// Opens the stream.
pub(super) async fn dial(target: &Target, allowance: &Allowance) -> Result<Box<dyn Stream>, Error> {
    let endpoint = &target.endpoint;
    match (endpoint, &target.tls) {
        (Endpoint::Unix(path), None) => {
            let dialling =
                async { UnixStream::connect(path).await.map_err(|error| unreachable(endpoint, error)) };
            Ok(Box::new(allowance.spend(endpoint, "dialling", dialling).await?))
        }
        (Endpoint::Unix(_), Some(_)) => {
            UnixSocketSnafu.fail().context(TlsSnafu { endpoint: endpoint.to_string() })
        }
        (Endpoint::Tcp { host, port }, None) => {
            Ok(Box::new(allowance.spend(endpoint, "dialling", dial_tcp(endpoint, host, *port)).await?))
        }
        (Endpoint::Tcp { host, port }, Some(tls)) => {
            let in_tls = || TlsSnafu { endpoint: endpoint.to_string() };
            // What we were given is checked before anybody is disturbed.
            let config = client_config(tls).with_context(|_| in_tls())?;
            let name = server_name(tls, endpoint).with_context(|_| in_tls())?;
            let stream = allowance.spend(endpoint, "dialling", dial_tcp(endpoint, host, *port)).await?;
            // A server that speaks no TLS on this port waits for the end of a line that never comes.
            let handshake = async {
                let handshake = TlsConnector::from(config).connect(name, stream).await;
                handshake.context(HandshakeSnafu).with_context(|_| in_tls())
            };
            let stream = allowance.spend(endpoint, "the TLS handshake", handshake).await?;
            Ok(Box::new(stream))
        }
    }
}

async fn dial_tcp(endpoint: &Endpoint, host: &str, port: u16) -> Result<TcpStream, Error> {
    let connect = async {
        let stream = TcpStream::connect((host, port)).await?;
        // Commands are small and each waits for its answer: batching would only add delay.
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    connect.await.map_err(|error| unreachable(endpoint, error))
}

fn unreachable(endpoint: &Endpoint, source: io::Error) -> Error {
    let reason = match source.kind() {
        io::ErrorKind::ConnectionRefused => ConnectFailure::Refused,
        io::ErrorKind::TimedOut => ConnectFailure::Timeout,
        _ => ConnectFailure::Unreachable,
    };
    Error::Connect { endpoint: endpoint.to_string(), reason, source }
}
