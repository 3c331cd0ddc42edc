//! Answering callers: who comes in is known by its certificate, then speaks gRPC. Whoever holds a place must use it.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use channel::{Accepted, Door, Refusal};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use proto::agent::LONGEST;
use proto::agent::agent_server::AgentServer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::codegen::Service as _;

use super::complaints::Complaints;
use super::health::Figures;
use super::takeover::Caller;
use super::verbs::Verbs;
use crate::say;

/// Callers at the same time: those of our shard, and the operator.
const AT_ONCE: usize = 32;
/// Questions of one of them at the same time.
const QUESTIONS: u32 = 4;
/// For showing who one is.
const INTRODUCTION: Duration = Duration::from_secs(2);
/// Without a question for so long, a caller has to go.
const IDLE: Duration = Duration::from_secs(30);
/// Nobody stays longer: a certificate that was believed may be none any more.
const STAY: Duration = Duration::from_mins(5);
/// Headers are short, in bytes.
const HEADERS: u32 = 8 * 1024;
/// What may be under way on a connection, in bytes: more than a few messages.
const WINDOW: u32 = 64 * 1024;
/// After a failure to accept: there may be no room for another connection just now.
const PAUSE: Duration = Duration::from_millis(200);

/// Answer for as long as we live.
pub(super) async fn serve(listener: TcpListener, door: Door, verbs: Arc<Verbs>, figures: Arc<Figures>) {
    let door = Arc::new(door);
    let verbs =
        AgentServer::from_arc(verbs).max_decoding_message_size(LONGEST).max_encoding_message_size(LONGEST);
    let mut visits: JoinSet<Result<(), (Refusal, SocketAddr)>> = JoinSet::new();
    let complaints = Complaints::default();
    loop {
        let accepted = tokio::select! {
            Some(visit) = visits.join_next() => {
                if let Ok(Err((refusal, address))) = visit {
                    let reason = refusal.into();
                    figures.refused(reason);
                    complaints.about(reason, Instant::now(), || {
                        format!("somebody at {} was sent away: {refusal}", address.ip().to_canonical())
                    });
                }
                continue;
            }
            accepted = listener.accept(), if visits.len() < AT_ONCE => accepted,
        };
        match accepted {
            Ok((connection, address)) => {
                visits.spawn(visit(door.clone(), connection, address, verbs.clone()));
            }
            Err(error) => {
                say(&format!("failed to accept a connection: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn visit(
    door: Arc<Door>,
    connection: TcpStream,
    address: SocketAddr,
    verbs: AgentServer<Verbs>,
) -> Result<(), (Refusal, SocketAddr)> {
    let accepted = door.accept(connection, address, INTRODUCTION).await.map_err(|why| (why, address))?;
    converse(accepted, verbs).await;
    Ok(())
}

async fn converse(accepted: Accepted, verbs: AgentServer<Verbs>) {
    let Accepted { stream, peer, address } = accepted;
    let caller = Caller { identity: peer.identity, ip: address.ip() };
    let questions = Arc::new(Questions::default());
    let asked = questions.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        let mut verbs = verbs.clone();
        let counted = Counted::one(&asked);
        async move {
            let answer = verbs.call(request).await;
            drop(counted);
            answer
        }
    });
    let conversation = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(QUESTIONS)
        .max_header_list_size(HEADERS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .serve_connection(TokioIo::new(stream), service);
    let mut conversation = pin!(conversation);
    let end = Instant::now() + STAY;
    let mut seen = 0;
    while Instant::now() < end {
        tokio::select! {
            // How it ended, the caller knows.
            _ = conversation.as_mut() => return,
            () = tokio::time::sleep(IDLE) => {}
        }
        let begun = questions.begun.load(Ordering::Relaxed);
        if begun == seen && begun == questions.ended.load(Ordering::Relaxed) {
            break;
        }
        seen = begun;
    }
    conversation.as_mut().graceful_shutdown();
    // What is under way may end.
    let _ = tokio::time::timeout(INTRODUCTION, conversation).await;
}

/// What a caller asked so far.
#[derive(Default)]
struct Questions {
    begun: AtomicUsize,
    /// Answered, or given up.
    ended: AtomicUsize,
}

/// A question that is being answered.
struct Counted(Arc<Questions>);

impl Counted {
    fn one(questions: &Arc<Questions>) -> Self {
        questions.begun.fetch_add(1, Ordering::Relaxed);
        Self(questions.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}
