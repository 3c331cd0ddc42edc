//! Orders to agents that answer as they are told to, over real channels on this machine.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use channel::{Credentials, Door, Doorbell, Peer};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use pki::Authority;
use pretty_assertions::assert_eq;
use prost::Message as _;
use proto::agent::SetDirectivesReply;
use proto::heartbeat::Stamp;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tonic::Code;

use super::*;
use crate::heartbeats::tests::{World, credentials, heartbeat, identity, leaf};

const SOON: Duration = Duration::from_secs(5);
const SECRET: &str = "hunter2hunter2";
const ORDER: [(&str, &str); 2] = [("hz", "20"), ("primaryauth", SECRET)];

/// What an agent says to every order.
#[derive(Clone)]
pub(crate) enum Says {
    Reply(Setting, &'static str),
    Code(Code),
}

/// An agent, and the orders that it heard.
pub(crate) struct FakeAgent {
    heard: Arc<Mutex<Vec<SetDirectivesRequest>>>,
    says: Arc<Mutex<Says>>,
    listening: AbortHandle,
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

struct Bell(Arc<Credentials>);

impl Doorbell for Bell {
    fn credentials(&self, _: &Home) -> Option<Arc<Credentials>> {
        Some(self.0.clone())
    }

    fn admits(&self, peer: &Peer) -> bool {
        peer.identity.role == Role::Operator
    }
}

impl FakeAgent {
    /// The agent of a pod of the cluster `cache`, at an address of its own: all agents have one port.
    pub(crate) async fn start(ip: &str, signer: &Authority, pod: &str, says: Says) -> Self {
        let own = leaf(identity("cache", Role::Sidecar, Some(pod)), Timestamp::now());
        let door = Arc::new(Door::new(Arc::new(Bell(Arc::new(credentials(signer, &own, signer))))).unwrap());
        let ip: IpAddr = ip.parse().unwrap();
        let listener = TcpListener::bind(SocketAddr::new(ip, names::SIDECAR_PORT)).await.unwrap();
        let heard: Arc<Mutex<Vec<SetDirectivesRequest>>> = Arc::default();
        let says = Arc::new(Mutex::new(says));
        let (orders, words) = (heard.clone(), says.clone());
        let listening = tokio::spawn(async move {
            loop {
                let (connection, from) = listener.accept().await.unwrap();
                let Ok(accepted) = door.accept(connection, from, SOON).await else { continue };
                let (orders, words) = (orders.clone(), words.clone());
                let service = service_fn(move |request| {
                    let says = words.lock().unwrap().clone();
                    answer(request, orders.clone(), says)
                });
                let conversation = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(accepted.stream), service);
                tokio::spawn(async move { drop(conversation.await) });
            }
        });
        Self { heard, says, listening: listening.abort_handle() }
    }

    /// From now on it says something else.
    pub(crate) fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    /// What it was told to set.
    pub(crate) fn heard(&self) -> Vec<(String, String)> {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        heard.into_iter().flat_map(|order| order.directives).map(|one| (one.name, one.value)).collect()
    }
}

/// An answer on the wire, as far as one question needs it.
async fn answer(
    request: Request<Incoming>,
    orders: Arc<Mutex<Vec<SetDirectivesRequest>>>,
    says: Says,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    assert_eq!(request.uri().path(), "/valkey.agent.v1.Agent/SetDirectives");
    let bytes = request.into_body().collect().await.unwrap().to_bytes();
    orders.lock().unwrap().push(SetDirectivesRequest::decode(&bytes[5..]).unwrap());
    let (code, message) = match says {
        Says::Reply(setting, words) => {
            let reply = SetDirectivesReply { setting: setting.into(), words: words.to_owned() };
            (Code::Ok, reply.encode_to_vec())
        }
        Says::Code(code) => (code, Vec::new()),
    };
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let frame = if code == Code::Ok { [&[0], &length[..], &message].concat() } else { Vec::new() };
    let mut status = HeaderMap::new();
    status.insert("grpc-status", HeaderValue::from(code as i32));
    let body = Full::new(Bytes::from(frame)).with_trailers(async move { Some(Ok(status)) });
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

/// The agent of this pod of the node `cache-0-0`.
fn beside(ip: &str, pod: &str) -> Beside {
    let home = identity("cache", Role::Operator, None).home();
    Beside::new(home, "cache-0-0", pod, "uid", ip).unwrap()
}

/// What came of an order, and whether the server was told directly.
async fn ordered(reception: &Reception, agent: Option<&Beside>) -> (Result<(), Unset<()>>, bool) {
    let mut told = false;
    let directly = async || {
        told = true;
        Ok(())
    };
    let set = set(agent, reception, &ORDER, directly).await;
    (set, told)
}

#[tokio::test]
async fn an_agent_sets_what_it_is_told_and_says_why_not() {
    let world = World::new().await;
    let agent = beside("127.0.0.71", "valkey-cache-0-0-0");
    let taken = Says::Reply(Setting::Taken, "");
    let fake = FakeAgent::start("127.0.0.71", &world.cache, "valkey-cache-0-0-0", taken).await;
    for (says, refusal, error) in [
        (Says::Reply(Setting::Taken, ""), None, None),
        (Says::Reply(Setting::Refused, "ERR no"), Some("ERR no"), Some("ERR no")),
        (
            Says::Reply(Setting::NotAllowed, "the directive dir is not set"),
            Some("the directive dir is not set"),
            None,
        ),
        (
            Says::Reply(Setting::Failed, "nobody listens"),
            None,
            Some("failed to set directives: nobody listens"),
        ),
        (Says::Reply(Setting::Unspecified, ""), None, Some("failed to set directives")),
        (
            Says::Code(Code::PermissionDenied),
            None,
            Some("failed to ask spiffe://valkey.local/ns/team/valkeycluster/cache"),
        ),
    ] {
        let taken = matches!(says, Says::Reply(Setting::Taken, _));
        fake.says(says);
        let (set, told) = ordered(&world.reception, Some(&agent)).await;
        assert_eq!(fake.heard(), ORDER.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(!told, "{set:?}: whoever answered has decided");
        assert_eq!(set.is_ok(), taken, "{set:?}");
        if let Err(Unset::Agent(why)) = &set {
            assert_eq!(why.refusal(), refusal);
            let shown = format!("{why:?} {}", kit::telemetry::chain(why));
            assert!(shown.contains(error.unwrap_or_default()) && !shown.contains(SECRET), "{shown}");
        }
    }
}

#[tokio::test]
async fn who_cannot_be_reached_is_no_agent_and_its_server_is_told_directly() {
    let world = World::new().await;
    let taken = Says::Reply(Setting::Taken, "");
    let mut agents = Vec::new();
    for (ip, signer, pod, says) in [
        // An older agent, that of another pod, and somebody whom another cluster's authority signed for.
        ("127.0.0.72", &world.cache, "valkey-cache-0-0-0", Says::Code(Code::Unimplemented)),
        ("127.0.0.73", &world.cache, "valkey-cache-0-1-0", taken.clone()),
        ("127.0.0.74", &world.queue, "valkey-cache-0-0-0", taken),
    ] {
        agents.push(FakeAgent::start(ip, signer, pod, says).await);
    }
    // At the last one nobody is.
    for ip in ["127.0.0.72", "127.0.0.73", "127.0.0.74", "127.0.0.75"] {
        let (set, told) = ordered(&world.reception, Some(&beside(ip, "valkey-cache-0-0-0"))).await;
        assert!(set.is_ok() && told, "{ip}: {set:?}");
    }
    assert!(agents[1..].iter().all(|agent| agent.heard().is_empty()), "a password is told to nobody else");
    let mut strangers = beside("127.0.0.72", "valkey-cache-0-0-0");
    strangers.identity.cluster = "unknown".to_owned();
    let (set, told) = ordered(&world.reception, Some(&strangers)).await;
    assert!(set.is_ok() && told, "{set:?}");
    let (set, told) = ordered(&world.reception, None).await;
    assert!(set.is_ok() && told, "{set:?}");
    // If that goes on, it counts as one that does not obey, until it answers.
    let now = Instant::now();
    assert_eq!(world.reception.obeys("uid", now), None);
    world.reception.called_in_vain("uid", now + Duration::from_secs(20));
    assert_eq!(world.reception.obeys("uid", now + Duration::from_secs(20)), Some(false));
    world.reception.answered("uid");
    assert_eq!(world.reception.obeys("uid", now + Duration::from_secs(20)), None);
}

fn pod(name: &str, has_sidecar: bool) -> Pod {
    let sidecar = json!([{"name": names::INIT_CONTAINER}, {"name": names::SIDECAR_CONTAINER}]);
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "team", "uid": format!("uid-of-{name}"),
            "labels": {keys::CLUSTER: "cache", keys::INSTANCE: "cache-0-0"},
        },
        "spec": {"containers": [], "initContainers": if has_sidecar { sidecar } else { json!([]) }},
        "status": {"podIP": "10.0.0.7"},
    }))
    .unwrap()
}

#[tokio::test]
async fn the_agent_of_a_pod_is_called_by_its_certificates_name_if_it_takes_orders() {
    let world = World::new().await;
    let found = |pod: &Pod| Beside::in_pod(pod, &world.reception, Instant::now());
    let known = found(&pod("valkey-cache-0-0-0", true)).unwrap();
    assert_eq!(known.address, SocketAddr::from(([10, 0, 0, 7], 17369)));
    assert_eq!(known.identity, identity("cache", Role::Sidecar, Some("valkey-cache-0-0-0")));
    let of_deployment = found(&pod("valkey-cache-0-0-7d4f-x2", true)).unwrap();
    assert_eq!(of_deployment.identity.pod.as_deref(), Some("valkey-cache-0-0"));

    assert_eq!(found(&pod("valkey-cache-0-0-0", false)), None, "there is none");
    let mut nowhere = pod("valkey-cache-0-0-0", true);
    nowhere.status = None;
    assert_eq!(found(&nowhere), None);
    let mut lone = pod("valkey-cache-0-0-0", true);
    lone.metadata.labels.as_mut().unwrap().remove(keys::CLUSTER);
    assert_eq!(found(&lone), None);

    let agent = credentials(
        &world.cache,
        &leaf(identity("cache", Role::Sidecar, Some("valkey-cache-0-0-0")), Timestamp::now()),
        &world.cache,
    );
    for (sequence, obeys) in [(1, true), (2, false)] {
        let mut beat = heartbeat(sequence, sequence, true);
        beat.stamp = Stamp { sequence, ..beat.stamp };
        beat.report.as_mut().unwrap().sets_directives = obeys;
        world.beat(&agent, &beat).await.unwrap();
        assert_eq!(found(&pod("valkey-cache-0-0-0", true)).is_some(), obeys, "an older agent is not asked");
    }
}
