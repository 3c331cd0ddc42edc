//! How we are, for the kubelet and Prometheus: `/healthz`, `/readyz`, `/metrics` by plain HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::say;

/// For one question and its answer: whoever holds places without asking must not keep others out.
const VISIT: Duration = Duration::from_secs(1);
/// Questions at the same time: there are two who ask.
const AT_ONCE: usize = 8;
/// Without a look for so long we do not do our work. Looks go on whether there is a server or not.
const LOOKED_WITHIN: Duration = Duration::from_secs(30);
/// After a failure to accept: there may be no room for another connection just now.
const PAUSE: Duration = Duration::from_millis(200);
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is counted.
pub(super) struct Figures {
    born: Instant,
    /// Milliseconds from then until the last look.
    looked: AtomicU64,
    /// Events that nobody was told of yet.
    untold: AtomicU64,
    server: Gauge,
    heard: Counter,
    unheard: Counter,
    /// Why callers were sent away.
    refusals: Family<[(&'static str, &'static str); 1], Counter>,
    /// How takeovers ended, of our own server's place and by our own server.
    takeovers: Family<[(&'static str, &'static str); 2], Counter>,
    /// Whether those were found whom our server had lost.
    reunions: Family<[(&'static str, &'static str); 1], Counter>,
    /// Takeovers of our own server's place that have not ended.
    under_way: AtomicU64,
    writes_stopped: Gauge,
    leads: Gauge,
    registry: Registry,
}

impl Default for Figures {
    fn default() -> Self {
        let (server, heard, unheard) = (Gauge::default(), Counter::default(), Counter::default());
        let mut registry = Registry::with_prefix("valkey_agent");
        registry.register("server_up", "1 while the server answers", server.clone());
        registry.register("messages_heard", "Heartbeats and events that the operator took", heard.clone());
        registry.register(
            "messages_unheard",
            "Heartbeats and events that the operator did not take",
            unheard.clone(),
        );
        let (refusals, takeovers, reunions) = (Family::default(), Family::default(), Family::default());
        registry.register("refusals", "Callers that were sent away, by why", refusals.clone());
        registry.register(
            "takeovers",
            "Takeovers, by whose server it is (dead or successor) and how it ended",
            takeovers.clone(),
        );
        registry.register(
            "reunions",
            "Tries to find a server that ours had lost, by whether it was found",
            reunions.clone(),
        );
        let (writes_stopped, leads) = (Gauge::default(), Gauge::default());
        registry.register(
            "leads",
            "1 while our server leads at the word of most of those who have a say",
            leads.clone(),
        );
        registry.register(
            "writes_stopped",
            "1 while our server takes no writes because too few of those who have a say are reached",
            writes_stopped.clone(),
        );
        Self {
            born: Instant::now(),
            looked: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            server,
            heard,
            unheard,
            refusals,
            takeovers,
            reunions,
            under_way: AtomicU64::new(0),
            writes_stopped,
            leads,
            registry,
        }
    }
}

impl Figures {
    /// The server was looked at.
    pub(super) fn looked(&self, answers: bool) {
        let age = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.looked.store(age, Ordering::Relaxed);
        self.server.set(i64::from(answers));
    }

    /// Something was said to the operator.
    pub(super) fn spoke(&self, heard: bool) {
        if heard { &self.heard } else { &self.unheard }.inc();
    }

    /// Something happened that is to be told.
    pub(super) fn happened(&self) {
        self.untold.fetch_add(1, Ordering::Relaxed);
    }

    /// It was told.
    pub(super) fn told(&self) {
        self.untold.fetch_sub(1, Ordering::Relaxed);
    }

    /// Somebody was sent away.
    pub(super) fn refused(&self, why: &'static str) {
        self.refusals.get_or_create(&[("reason", why)]).inc();
    }

    /// Somebody is to take our server's place.
    pub(super) fn succession_begins(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended.
    pub(super) fn succession_ended(&self, how: &'static str) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.takeovers.get_or_create(&[("side", "dead"), ("outcome", how)]).inc();
    }

    /// Nobody is being asked to take our server's place.
    pub(super) fn is_succession_over(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }

    /// Somebody was looked for whom our server had lost.
    pub(super) fn sought(&self, found: bool) {
        self.reunions.get_or_create(&[("found", if found { "yes" } else { "no" })]).inc();
    }

    /// Our server leads at the word of most, or does not.
    pub(super) fn leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    /// Our server takes no writes, or takes them again.
    pub(super) fn writes_stopped(&self, are_stopped: bool) {
        self.writes_stopped.set(i64::from(are_stopped));
    }

    /// Our server was to take another one's place.
    pub(super) fn took_over(&self, how: &'static str) {
        self.takeovers.get_or_create(&[("side", "successor"), ("outcome", how)]).inc();
    }

    /// There is nothing left to say: the server's end was seen, and told.
    pub(super) fn is_all_said(&self) -> bool {
        self.server.get() == 0 && self.untold.load(Ordering::Relaxed) == 0
    }

    /// Whether we do our work. What the server does is not asked here, nor whether the operator is there: neither is helped by
    /// starting us again.
    fn is_at_work(&self) -> bool {
        let looked = Duration::from_millis(self.looked.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(looked) <= LOOKED_WITHIN
    }
}

/// Answer for as long as we live.
pub(super) async fn serve(listener: TcpListener, figures: Arc<Figures>) {
    let mut visits = JoinSet::new();
    loop {
        while visits.len() >= AT_ONCE || visits.try_join_next().is_some() {
            if visits.len() >= AT_ONCE {
                visits.join_next().await;
            }
        }
        match listener.accept().await {
            Ok((connection, _)) => drop(visits.spawn(converse(connection, figures.clone()))),
            Err(error) => {
                say(&format!("failed to accept a connection: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(connection: TcpStream, figures: Arc<Figures>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &figures);
        async move { Ok::<_, Infallible>(answer) }
    });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(VISIT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(connection), service);
    // Whoever asks again may ask better.
    let _ = tokio::time::timeout(VISIT, conversation).await;
}

fn answer(request: &Request<Incoming>, figures: &Figures) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET");
    }
    match request.uri().path() {
        "/healthz" if figures.is_at_work() => text(StatusCode::OK, "ok"),
        "/healthz" => text(StatusCode::SERVICE_UNAVAILABLE, "the server was not looked at for a while"),
        "/readyz" => text(StatusCode::OK, "ok"),
        "/metrics" => metrics(figures),
        _ => text(StatusCode::NOT_FOUND, "try /healthz, /readyz or /metrics"),
    }
}

fn metrics(figures: &Figures) -> Response<Full<Bytes>> {
    let mut words = String::new();
    if encode(&mut words, &figures.registry).is_err() {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "");
    }
    let mut response = Response::new(Full::from(words));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS));
    response
}

fn text(status: StatusCode, words: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(words));
    *response.status_mut() = status;
    response
}
