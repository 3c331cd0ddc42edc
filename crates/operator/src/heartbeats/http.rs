//! Accepting, reading and answering. Each connection is for one message: its certificate was looked at a moment ago, and there is
//! nothing to keep.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use channel::{Accepted, Door, Peer};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use proto::heartbeat::{EVENTS, HEARTBEAT, Happened, Heartbeat, LONGEST, Rejection, Reply};
use serde::Serialize;
use serde::de::DeserializeOwned;
use snafu::Snafu;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::member::Unwelcome;
use super::reception::{Reception, Unheard};
use super::reports::Message;

/// Connections at the same time; others wait to be accepted.
const AT_ONCE: usize = 256;
/// Of one address: a pod has one agent, and whoever is silent at many doors must not keep others out.
const OF_ONE_ADDRESS: usize = 8;
/// Messages that are read at the same time.
const READ_AT_ONCE: usize = 16;
/// For finding out who somebody is.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// For what comes before a message.
const HEADERS: Duration = Duration::from_secs(3);
/// For all of it.
const VISIT: Duration = Duration::from_secs(10);
/// For what comes before a message, in bytes.
const LONGEST_HEADERS: usize = 16 * 1024;
/// After a failure to accept: there may be no room for another connection just now.
const PAUSE: Duration = Duration::from_millis(200);

/// Why a message was not taken.
#[derive(Debug, Snafu)]
enum Rejected {
    #[snafu(display("there is nothing here: agents speak to {HEARTBEAT} and {EVENTS}"))]
    NotFound,
    #[snafu(display("messages are sent by POST"))]
    Method,
    #[snafu(display("a message has {LONGEST} bytes at most"))]
    TooLong,
    #[snafu(display("the message broke off"))]
    Broken,
    #[snafu(display("the message is not readable: {words}"))]
    Malformed { words: String },
    #[snafu(display("{reason}"))]
    Unwelcome { reason: Unwelcome },
    #[snafu(display("the message was heard before, or a later one was"))]
    Replayed,
    #[snafu(display("there were too many messages of this pod just now"))]
    TooMany,
}

impl Rejected {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken | Self::Malformed { .. } => StatusCode::BAD_REQUEST,
            Self::Unwelcome { .. } => StatusCode::FORBIDDEN,
            Self::Replayed => StatusCode::CONFLICT,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// As it is counted.
    fn name(&self) -> &'static str {
        match self {
            Self::NotFound => "notFound",
            Self::Method => "method",
            Self::TooLong => "tooLong",
            Self::Broken => "broken",
            Self::Malformed { .. } => "malformed",
            Self::Unwelcome { reason } => reason.into(),
            Self::Replayed => "replayed",
            Self::TooMany => "tooMany",
        }
    }
}

impl From<Unheard> for Rejected {
    fn from(unheard: Unheard) -> Self {
        match unheard {
            Unheard::Unwelcome(reason) => Self::Unwelcome { reason },
            Unheard::Replayed => Self::Replayed,
            Unheard::TooMany => Self::TooMany,
        }
    }
}

/// Receive agents until `stop`.
pub(crate) async fn serve(
    listener: TcpListener,
    door: Door,
    reception: Arc<Reception>,
    stop: CancellationToken,
) {
    let door = Arc::new(door);
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let desk = Arc::new(Semaphore::new(READ_AT_ONCE));
    let crowd = Crowd::default();
    // They end with this function.
    let mut visits = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accept(&listener, &room) => accepted,
        };
        while visits.try_join_next().is_some() {}
        match accepted {
            Ok((connection, address, place)) => {
                let Some(one) = crowd.enter(address.ip().to_canonical()) else {
                    reception.turned_away(address.ip().to_canonical(), Instant::now());
                    continue;
                };
                let visit = receive(door.clone(), connection, address, reception.clone(), desk.clone());
                visits.spawn(async move {
                    visit.await;
                    drop((place, one));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection of an agent");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// A connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, SocketAddr, Option<tokio::sync::OwnedSemaphorePermit>)> {
    // The semaphore is never closed.
    let place = room.clone().acquire_owned().await.ok();
    let (connection, address) = listener.accept().await?;
    Ok((connection, address, place))
}

/// How many connections of each address there are.
#[derive(Clone, Default)]
struct Crowd(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One of them, for as long as it lasts.
struct OneOfMany {
    crowd: Crowd,
    address: IpAddr,
}

impl Crowd {
    fn enter(&self, address: IpAddr) -> Option<OneOfMany> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = all.entry(address).or_default();
        (*there < OF_ONE_ADDRESS).then(|| {
            *there += 1;
            OneOfMany { crowd: self.clone(), address }
        })
    }
}

impl Drop for OneOfMany {
    fn drop(&mut self) {
        let mut all = self.crowd.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = all.get_mut(&self.address) {
            *there -= 1;
            if *there == 0 {
                all.remove(&self.address);
            }
        }
    }
}

async fn receive(
    door: Arc<Door>,
    connection: TcpStream,
    address: SocketAddr,
    reception: Arc<Reception>,
    desk: Arc<Semaphore>,
) {
    match door.accept(connection, address, HANDSHAKE).await {
        Ok(accepted) => {
            // Whoever is too slow is not waited for. What it said is heard or not, and it says the next thing anyhow.
            let _ = tokio::time::timeout(VISIT, converse(accepted, reception, desk)).await;
        }
        Err(refusal) => reception.refused(refusal, address.ip().to_canonical(), Instant::now()),
    }
}

async fn converse(accepted: Accepted, reception: Arc<Reception>, desk: Arc<Semaphore>) {
    let Accepted { stream, peer, address } = accepted;
    let visitor = Arc::new((peer, address.ip()));
    let service = service_fn(move |request| {
        let (reception, visitor, desk) = (reception.clone(), visitor.clone(), desk.clone());
        async move { Ok::<_, Infallible>(answer(request, &reception, &visitor.0, visitor.1, &desk).await) }
    });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_header_size(LONGEST_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = conversation.await {
        tracing::debug!(%error, "an agent broke off");
    }
}

async fn answer<B>(
    request: Request<B>,
    reception: &Reception,
    peer: &Peer,
    address: IpAddr,
    desk: &Semaphore,
) -> Response<Full<Bytes>>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Send,
{
    let now = Instant::now();
    match take(request, reception, (peer, address), desk, now).await {
        Ok(reply) => {
            reception.metrics.agents.heard("taken");
            json(StatusCode::OK, &reply)
        }
        Err(rejected) => {
            reception.rejected(rejected.name(), peer, address, now);
            json(rejected.status(), &Rejection { error: rejected.to_string() })
        }
    }
}

async fn take<B>(
    request: Request<B>,
    reception: &Reception,
    (peer, address): (&Peer, IpAddr),
    desk: &Semaphore,
    now: Instant,
) -> Result<Reply, Rejected>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Send,
{
    let path = request.uri().path();
    let is_event = match path {
        HEARTBEAT => false,
        EVENTS => true,
        _ => return Err(Rejected::NotFound),
    };
    if request.method() != Method::POST {
        return Err(Rejected::Method);
    }
    // Before anything it says is read: what a message becomes in memory is much more than its bytes.
    let welcome = reception.welcome(peer, address)?;
    // The semaphore is never closed.
    let _place = desk.acquire().await.ok();
    let bytes = whole(request.into_body()).await?;
    let message = if is_event {
        let Happened { stamp, revision, report, event } = read(&bytes)?;
        Message { stamp, revision, report, event: Some(event) }
    } else {
        let Heartbeat { stamp, revision, report } = read(&bytes)?;
        Message { stamp, revision, report, event: None }
    };
    let missed = message.event.as_ref().and_then(|event| reception.missed(&welcome, event));
    let reply = reception.hear(&welcome, message, now)?;
    let agrees = match missed {
        Some(missed) => reception.agrees(&missed).await,
        None => false,
    };
    Ok(Reply { agrees, ..reply })
}

async fn whole<B>(body: B) -> Result<Bytes, Rejected>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Send,
{
    match Limited::new(body, LONGEST).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Rejected::TooLong),
        Err(_) => Err(Rejected::Broken),
    }
}

/// The words say where the mistake is, and never quote what stands there.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Rejected> {
    serde_json::from_slice(bytes).map_err(|error| {
        let words = format!("{:?} at line {} column {}", error.classify(), error.line(), error.column());
        Rejected::Malformed { words }
    })
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Full<Bytes>> {
    // Plain data with string keys always has a JSON form.
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
