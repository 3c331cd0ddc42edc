//! An operator in this process that dies right after its n-th write or command for a server: it arrived, nothing after it
//! happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kit::metrics::Metrics;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tower::{Layer, Service};

use crate::World;

/// How an operator in this process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After the write it was told to die after.
    Crashed,
    /// It was told to stop before it wrote that often.
    Stopped,
}

/// A running operator for one namespace.
pub struct Operator {
    stop: CancellationToken,
    crashed: CancellationToken,
    writes: Arc<AtomicUsize>,
    ended: oneshot::Receiver<()>,
}

impl Operator {
    /// Start one for the world's namespace, in a thread and runtime of its own: dropping the runtime is its death.
    pub fn start(world: &World, die_after: Option<usize>) -> Self {
        let (stop, crashed) = (CancellationToken::new(), CancellationToken::new());
        let writes = Arc::new(AtomicUsize::new(0));
        let (done, ended) = oneshot::channel();
        let layer = CrashAfter { die_after, writes: writes.clone(), crashed: crashed.clone() };
        let of_commands = layer.clone();
        let hook = valkey_operator::AfterCommand::new(move || Box::pin(of_commands.clone().after_command()));
        let (kubeconfig, namespace) = (world.target.kubeconfig(), world.namespace.clone());
        let (stopping, dying) = (stop.clone(), crashed.clone());
        thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("should start");
            runtime.block_on(async {
                let client = client(&kubeconfig, layer).await;
                let (metrics, _) = Metrics::new();
                let settings = valkey_operator::Settings::default();
                // Agents speak to the operator in the cluster, which is away: nobody is received here.
                let reception = valkey_operator::Reception::new(&settings.trust_domain, metrics.clone());
                let run = valkey_operator::run_controllers(
                    client,
                    Some(namespace),
                    settings,
                    metrics,
                    hook,
                    Arc::new(reception),
                    stopping.clone(),
                );
                tokio::select! {
                    () = run => {}
                    () = dying.cancelled() => {}
                }
            });
            runtime.shutdown_background();
            let _ = done.send(());
        });
        Self { stop, crashed, writes, ended }
    }

    /// How many writes it has begun.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.crashed.is_cancelled()
    }

    /// Stop it in good order.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = tokio::time::timeout(Duration::from_secs(30), self.ended).await;
    }
}

async fn client(kubeconfig: &std::path::Path, layer: CrashAfter) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).expect("should read the kubeconfig");
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .expect("should be a config");
    ClientBuilder::try_from(config).expect("should make a client").with_layer(&layer).build()
}

#[derive(Clone)]
struct CrashAfter {
    die_after: Option<usize>,
    writes: Arc<AtomicUsize>,
    crashed: CancellationToken,
}

impl CrashAfter {
    /// A command that a server obeyed counts as a write.
    async fn after_command(self) {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if number >= self.die_after.unwrap_or(usize::MAX) {
            self.crashed.cancel();
            futures::future::pending::<()>().await;
        }
    }
}

impl<S> Layer<S> for CrashAfter {
    type Service = Crashing<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Crashing { inner, plan: self.clone() }
    }
}

#[derive(Clone)]
struct Crashing<S> {
    inner: S,
    plan: CrashAfter,
}

impl<S, B> Service<Request<Body>> for Crashing<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let write = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
        let number = if write { self.plan.writes.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
        let last = self.plan.die_after.unwrap_or(usize::MAX);
        if number > last {
            // The dead do not call.
            return Box::pin(futures::future::pending());
        }
        let call = self.inner.call(request);
        let crashed = self.plan.crashed.clone();
        Box::pin(async move {
            let answer = call.await;
            if number == last && write {
                crashed.cancel();
                futures::future::pending::<()>().await;
            }
            answer
        })
    }
}
