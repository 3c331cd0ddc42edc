//! Prometheus metrics. Labels are static words (kind, verb, outcome), never names of objects: the number of series
//! does not grow with the number of objects. The exception are a few series per ValkeyCluster, in `clusters`, and per root, bundle
//! and cluster with certificates, in `certificates`.

mod agents;
mod certificates;
mod clusters;

use std::sync::atomic::AtomicI64;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tower::{Layer, Service};

pub use agents::Agents;
pub use certificates::Certificates;
pub use clusters::{Cluster, Clusters, Failover, Numbers};

/// Which controller.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Controller {
    /// The kind it reconciles.
    pub kind: &'static str,
}

/// How a reconcile of a controller ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Outcome {
    /// The kind.
    pub kind: &'static str,
    /// A word of the controller's: `converged`, `acted`, `waiting`, `invalid`, …
    pub outcome: &'static str,
}

/// A failed reconcile.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Failure {
    /// The kind.
    pub kind: &'static str,
    /// Category of the error.
    pub error: &'static str,
}

/// A call to the API server.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ApiCall {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: &'static str,
    /// Resource in the plural, with its subresource.
    pub resource: String,
}

/// All metrics of the operator.
#[derive(Clone)]
pub struct Metrics {
    /// Reconciles by outcome.
    pub reconciles: Family<Outcome, Counter>,
    /// Failed reconciles by category.
    pub failures: Family<Failure, Counter>,
    /// How long reconciles take.
    pub durations: Family<Controller, Histogram, fn() -> Histogram>,
    /// Objects with news that no worker has looked at yet.
    pub queue: Family<Controller, Gauge<i64, AtomicI64>>,
    /// Calls to the API server.
    pub api_calls: Family<ApiCall, Counter>,
    /// 1 while this replica is the leader.
    pub leader: Gauge<i64, AtomicI64>,
    /// What is known of each ValkeyCluster.
    pub clusters: Clusters,
    /// How long certificates last.
    pub certificates: Certificates,
    /// What comes from agents.
    pub agents: Agents,
}

impl Metrics {
    /// The metrics and the registry that prints them.
    pub fn new() -> (Self, Registry) {
        let metrics = Self {
            reconciles: Family::default(),
            failures: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 15))),
            queue: Family::default(),
            api_calls: Family::default(),
            leader: Gauge::default(),
            clusters: Clusters::default(),
            certificates: Certificates::default(),
            agents: Agents::default(),
        };
        let mut registry = Registry::with_prefix("valkey_operator");
        registry.register("reconciles", "Reconciles by kind and outcome", metrics.reconciles.clone());
        registry.register(
            "reconcile_errors",
            "Failed reconciles by kind and category",
            metrics.failures.clone(),
        );
        registry.register(
            "reconcile_duration_seconds",
            "How long reconciles take",
            metrics.durations.clone(),
        );
        registry.register(
            "queue",
            "Objects with news that wait for a worker, by kind",
            metrics.queue.clone(),
        );
        registry.register(
            "api_calls",
            "Calls to the Kubernetes API by verb and resource",
            metrics.api_calls.clone(),
        );
        registry.register("leader", "1 while this replica is the leader", metrics.leader.clone());
        metrics.clusters.register(&mut registry);
        metrics.certificates.register(&mut registry);
        metrics.agents.register(&mut registry);
        (metrics, registry)
    }

    /// Record how many objects wait.
    pub fn waiting(&self, kind: &'static str, count: usize) {
        self.queue.get_or_create(&Controller { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Record one finished reconcile.
    pub fn observe(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        self.reconciles.get_or_create(&Outcome { kind, outcome }).inc();
        self.durations.get_or_create(&Controller { kind }).observe(took.as_secs_f64());
    }
}

/// Counts every call of a Kubernetes client.
#[derive(Clone)]
pub struct CountCalls(pub Metrics);

impl<S> Layer<S> for CountCalls {
    type Service = CountedCalls<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CountedCalls { inner, calls: self.0.api_calls.clone() }
    }
}

/// See [`CountCalls`].
#[derive(Clone)]
pub struct CountedCalls<S> {
    inner: S,
    calls: Family<ApiCall, Counter>,
}

impl<S, B, R> Service<Request<B>> for CountedCalls<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let call =
            describe(request.method().as_str(), request.uri().path(), request.uri().query().unwrap_or(""));
        self.calls.get_or_create(&call).inc();
        self.inner.call(request)
    }
}

/// What a request asks for: `/apis/<group>/<version>[/namespaces/<ns>]/<resource>[/<name>[/<subresource>]]`.
fn describe(method: &str, path: &str, query: &str) -> ApiCall {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rest = match parts.first() {
        Some(&"api") => parts.get(2..),
        Some(&"apis") => parts.get(3..),
        _ => None,
    }
    .unwrap_or_default();
    let rest = match rest {
        ["namespaces", _, deeper @ ..] if !deeper.is_empty() => deeper,
        all => all,
    };
    let (resource, named) = match rest {
        [resource, _, subresource, ..] => (format!("{resource}/{subresource}"), true),
        [resource, _] => ((*resource).to_owned(), true),
        [resource] => ((*resource).to_owned(), false),
        [] => ("other".to_owned(), false),
    };
    let verb = match method {
        "GET" if query.split('&').any(|pair| pair == "watch=true") => "watch",
        "GET" if named => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    };
    ApiCall { verb, resource }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_by_verb_and_resource_without_object_names() {
        for (method, path, query, verb, resource) in [
            ("GET", "/api/v1/namespaces/a/pods/b", "", "get", "pods"),
            ("GET", "/api/v1/pods", "watch=true&x=1", "watch", "pods"),
            ("GET", "/apis/valkey.io/v1alpha1/valkeynodes", "", "list", "valkeynodes"),
            (
                "PATCH",
                "/apis/valkey.io/v1alpha1/namespaces/a/valkeynodes/b/status",
                "",
                "patch",
                "valkeynodes/status",
            ),
            ("POST", "/apis/events.k8s.io/v1/namespaces/a/events", "", "create", "events"),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "", "update", "leases"),
            ("GET", "/version", "", "list", "other"),
        ] {
            assert_eq!(
                describe(method, path, query),
                ApiCall { verb, resource: resource.to_owned() },
                "{path}"
            );
        }
    }

    #[tokio::test]
    async fn a_client_with_the_layer_counts_what_it_asks() {
        let (metrics, _) = Metrics::new();
        let layer = CountCalls(metrics.clone());
        let answering = tower::service_fn(|_: Request<String>| async {
            Ok::<_, std::convert::Infallible>(Response::new(String::new()))
        });
        let mut service = layer.layer(answering);
        for (method, path) in [
            ("GET", "/api/v1/namespaces/a/pods/b"),
            ("GET", "/api/v1/namespaces/a/pods/c"),
            ("DELETE", "/api/v1/namespaces/a/pods/b"),
        ] {
            let request =
                Request::builder().method(method).uri(path).body(String::new()).expect("should be a request");
            service.call(request).await.expect("should be answered");
        }
        let counted =
            |verb| metrics.api_calls.get_or_create(&ApiCall { verb, resource: "pods".to_owned() }).get();
        assert_eq!((counted("get"), counted("delete"), counted("list")), (2, 1, 0));
    }
}
