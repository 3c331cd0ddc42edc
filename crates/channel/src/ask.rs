//! Asking by gRPC: a channel, and usually one question and its answer.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use snafu::{ResultExt as _, Snafu};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::{Code, Status};

use crate::{CallError, Called, Credentials, call};

/// Why somebody did not answer.
#[derive(Debug, Snafu)]
pub enum AskError {
    /// Nobody was reached, or not the one who was called.
    #[snafu(transparent)]
    Call {
        /// Why.
        source: CallError,
    },
    /// The name of its cluster's door is none.
    #[snafu(display("failed to address {address}"))]
    Name {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: hyper::http::uri::InvalidUri,
    },
    /// The channel broke.
    #[snafu(display("failed to speak to {address}"))]
    Speak {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: hyper::Error,
    },
    /// It closed the channel instead of answering.
    #[snafu(display("failed to hear from {address}: it hung up"))]
    HungUp {
        /// Where.
        address: SocketAddr,
    },
    /// It answered that it cannot.
    #[snafu(display("failed to ask {address}"))]
    Answer {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: Box<Status>,
    },
    /// It took too long.
    #[snafu(display("failed to hear from {address} within {within:?}"))]
    TooSlow {
        /// Where.
        address: SocketAddr,
        /// How long.
        within: Duration,
    },
}

impl AskError {
    /// Nobody who knows the question has heard it, as far as is known.
    pub fn is_unheard(&self) -> bool {
        match self {
            Self::Answer { source, .. } => source.code() == Code::Unimplemented,
            _ => true,
        }
    }
}

/// Open a channel, ask one question over it and close it, all within this time.
pub async fn ask<T>(
    called: &Called,
    credentials: &Credentials,
    within: Duration,
    ask: impl AsyncFnOnce(Line) -> Result<tonic::Response<T>, Status>,
) -> Result<T, AskError> {
    let address = called.address;
    let asked = tokio::time::timeout(within, speak(called, credentials, within, ask));
    asked.await.unwrap_or_else(|_| TooSlowSnafu { address, within }.fail())
}

async fn speak<T>(
    called: &Called,
    credentials: &Credentials,
    within: Duration,
    ask: impl AsyncFnOnce(Line) -> Result<tonic::Response<T>, Status>,
) -> Result<T, AskError> {
    let address = called.address;
    let (line, connection) = dial(called, credentials, within).await?;
    tokio::select! {
        biased;
        answer = ask(line) => match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(Box::new(status)).context(AnswerSnafu { address }),
        },
        // It ends with the exchange, not before.
        ended = connection => match ended {
            Ok(()) => HungUpSnafu { address }.fail(),
            Err(error) => Err(error).context(SpeakSnafu { address }),
        },
    }
}

/// A channel for many questions, and what moves bytes on it for as long as it is awaited.
pub async fn dial(
    called: &Called,
    credentials: &Credentials,
    within: Duration,
) -> Result<(Line, impl Future<Output = Result<(), hyper::Error>> + Send + 'static + use<>), AskError> {
    let address = called.address;
    let origin = format!("https://{}", called.whom.home().door()).parse().context(NameSnafu { address })?;
    let stream = call(called, credentials, within).await?;
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.context(SpeakSnafu { address })?;
    Ok((Line { sender, origin }, connection))
}

/// A channel as gRPC wants it.
pub struct Line {
    sender: http2::SendRequest<Body>,
    origin: Uri,
}

impl Line {
    /// What stands before the path of every question.
    pub fn origin(&self) -> Uri {
        self.origin.clone()
    }
}

impl Service<Request<Body>> for Line {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
