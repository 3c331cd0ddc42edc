//! Saying one thing to the operator.

use std::net::SocketAddr;
use std::time::Duration;

use channel::{CallError, Called, Whom, call};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use proto::heartbeat::{LONGEST, Rejection, Reply};
use serde::Serialize;
use snafu::{ResultExt as _, Snafu, ensure};

use super::papers::Papers;

/// For opening a channel.
const OPEN: Duration = Duration::from_secs(3);
/// For all of it.
const ALL: Duration = Duration::from_secs(6);
/// What the operator answers is short, in bytes.
const LONGEST_ANSWER: usize = 16 * 1024;

/// Why something was not heard.
#[derive(Debug, Snafu)]
pub(super) enum Error {
    /// Nobody was reached, or nobody we know.
    #[snafu(transparent)]
    Call {
        /// Why.
        source: CallError,
    },
    /// The message is too long to be taken.
    #[snafu(display("the message has {length} bytes, and {LONGEST} are taken"))]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// The message cannot be put in words.
    #[snafu(display("failed to write the message"))]
    Write {
        /// Why.
        source: serde_json::Error,
    },
    /// The message is none of HTTP.
    #[snafu(display("failed to make a request"))]
    Make {
        /// Why.
        source: hyper::http::Error,
    },
    /// The channel broke.
    #[snafu(display("failed to speak to {address}"))]
    Speak {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: hyper::Error,
    },
    /// The answer is too long, or broke off.
    #[snafu(display("failed to hear the answer of {address}"))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is not readable.
    #[snafu(display("failed to understand the answer of {address}"))]
    Understand {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: serde_json::Error,
    },
    /// The operator does not take it.
    #[snafu(display("{address} did not take it: {status}, {words}"))]
    Rejected {
        /// Where.
        address: SocketAddr,
        /// How.
        status: StatusCode,
        /// In the operator's words.
        words: String,
    },
    /// It took too long.
    #[snafu(display("{address} did not answer within {ALL:?}"))]
    TooSlow {
        /// Where.
        address: SocketAddr,
    },
}

impl Error {
    /// Nobody was there, and the address may be an old one.
    pub(super) fn is_unreached(&self) -> bool {
        matches!(self, Self::Call { .. } | Self::TooSlow { .. })
    }
}

/// Say it, and hear what the operator answers.
pub(super) async fn post<T: Serialize>(
    address: SocketAddr,
    papers: &Papers,
    path: &'static str,
    message: &T,
) -> Result<Reply, Error> {
    let body = serde_json::to_vec(message).context(WriteSnafu)?;
    ensure!(body.len() <= LONGEST, TooLongSnafu { length: body.len() });
    let said = tokio::time::timeout(ALL, say(address, papers, path, body));
    said.await.unwrap_or_else(|_| TooSlowSnafu { address }.fail())
}

async fn say(
    address: SocketAddr,
    papers: &Papers,
    path: &'static str,
    body: Vec<u8>,
) -> Result<Reply, Error> {
    let called = Called { address, whom: Whom::Just(papers.operator.clone()) };
    let stream = call(&called, &papers.credentials, OPEN).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.context(SpeakSnafu { address })?;
    let request = Request::post(path)
        .header(HOST, papers.operator.home().door())
        .header(CONTENT_TYPE, "application/json")
        .body(Full::<Bytes>::from(body))
        .context(MakeSnafu)?;
    let exchange = async move {
        let response = sender.send_request(request).await.context(SpeakSnafu { address })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        Ok::<_, Error>((status, body.context(ListenSnafu { address })?.to_bytes()))
    };
    // The connection ends with the exchange; what became of it, the exchange tells.
    let (answer, _) = tokio::join!(exchange, connection);
    let (status, answer) = answer?;
    if status != StatusCode::OK {
        let words = serde_json::from_slice::<Rejection>(&answer).map(|rejection| rejection.error);
        return RejectedSnafu { address, status, words: words.unwrap_or_default() }.fail();
    }
    serde_json::from_slice(&answer).context(UnderstandSnafu { address })
}
