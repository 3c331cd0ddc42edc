//! Opening the stream a connection runs on.

use std::io;

use snafu::ResultExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::error::{ConnectFailure, Error, TlsSnafu};
use super::target::{Endpoint, Target};
use super::tls::{HandshakeSnafu, UnixSocketSnafu, client_config, server_name};

/// Whatever RESP can run on.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Opens the stream; the caller holds the deadline.
pub(super) async fn dial(target: &Target) -> Result<Box<dyn Stream>, Error> {
    let endpoint = &target.endpoint;
    match (endpoint, &target.tls) {
        (Endpoint::Unix(path), None) => {
            let stream = UnixStream::connect(path).await.map_err(|error| unreachable(endpoint, error))?;
            Ok(Box::new(stream))
        }
        (Endpoint::Unix(_), Some(_)) => {
            UnixSocketSnafu.fail().context(TlsSnafu { endpoint: endpoint.to_string() })
        }
        (Endpoint::Tcp { host, port }, None) => Ok(Box::new(dial_tcp(endpoint, host, *port).await?)),
        (Endpoint::Tcp { host, port }, Some(tls)) => {
            let in_tls = || TlsSnafu { endpoint: endpoint.to_string() };
            // What we were given is checked before anybody is disturbed.
            let config = client_config(tls).with_context(|_| in_tls())?;
            let name = server_name(tls, endpoint).with_context(|_| in_tls())?;
            let stream = dial_tcp(endpoint, host, *port).await?;
            let stream = TlsConnector::from(config)
                .connect(name, stream)
                .await
                .context(HandshakeSnafu)
                .with_context(|_| in_tls())?;
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
