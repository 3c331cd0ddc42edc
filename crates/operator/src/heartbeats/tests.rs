//! Agents and those who would like to be taken for one, over real connections on this machine.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::{ValkeyCertificateBinding, keys, names};
use channel::{Called, Credentials, Door, Doorbell as _, Whom, call};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::metrics::Metrics;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher;
use pki::{Authority, Identity, Leaf, Purpose, Role};
use pretty_assertions::assert_eq;
use proto::heartbeat::{Heartbeat, LONGEST, Reply, Report, ServerState, Stamp, UsersFile};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::member::{Unwelcome, member};
use super::*;

const DOMAIN: &str = "valkey.local";
const SOON: Duration = Duration::from_secs(5);

pub(crate) fn identity(cluster: &str, role: Role, pod: Option<&str>) -> Identity {
    Identity {
        trust_domain: DOMAIN.to_owned(),
        namespace: "team".to_owned(),
        cluster: cluster.to_owned(),
        role,
        pod: pod.map(str::to_owned),
    }
}

fn agent(cluster: &str, pod: &str) -> Identity {
    identity(cluster, Role::Sidecar, Some(pod))
}

pub(crate) fn leaf(identity: Identity, from: Timestamp) -> Leaf {
    Leaf {
        name: "party".to_owned(),
        hosts: Vec::new(),
        addresses: Vec::new(),
        identity: Some(identity),
        purposes: vec![Purpose::Server, Purpose::Client],
        from,
        validity: SignedDuration::from_hours(1),
    }
}

fn authority(cluster: &str) -> Authority {
    let long_ago = Timestamp::now() - SignedDuration::from_hours(48);
    let root = Authority::root("root", long_ago, SignedDuration::from_hours(100)).unwrap();
    root.below(cluster, long_ago, SignedDuration::from_hours(90)).unwrap()
}

/// What somebody has whom `signer` signed for and who trusts `trusted`.
pub(crate) fn credentials(signer: &Authority, leaf: &Leaf, trusted: &Authority) -> Credentials {
    let (chain, key) = signer.issue(leaf).unwrap();
    Credentials::read(&chain, &key.pem(), trusted.anchor()).unwrap()
}

fn operators_secret(cluster: &str, signer: &Authority) -> Secret {
    let own = leaf(identity(cluster, Role::Operator, None), Timestamp::now());
    let (chain, key) = signer.issue(&own).unwrap();
    let mut secret: Secret = serde_json::from_value(json!({"metadata": {
        "name": names::operator_certificate(cluster),
        "namespace": "team",
        "resourceVersion": "1",
        "ownerReferences": [{
            "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCertificateBinding", "controller": true,
            "name": names::operator_binding(cluster), "uid": format!("binding-of-{cluster}"),
        }],
    }}))
    .unwrap();
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let key = secrecy::ExposeSecret::expose_secret(&key.pem()).to_owned();
    secret.data = Some(
        [("tls.crt", bytes(&chain)), ("tls.key", bytes(&key)), ("ca.crt", bytes(signer.anchor()))]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    );
    secret
}

fn binding(cluster: &str) -> DeserializeGuard<ValkeyCertificateBinding> {
    serde_json::from_value(json!({
        "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCertificateBinding",
        "metadata": {
            "name": names::operator_binding(cluster), "namespace": "team", "uid": format!("binding-of-{cluster}"),
            "ownerReferences": [{
                "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "controller": true,
                "name": cluster, "uid": "c",
            }],
        },
        "spec": {"clusterRef": {"name": cluster}, "certificates": []},
    }))
    .unwrap()
}

fn pod(cluster: &str, node: &str, name: &str, address: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "team", "uid": format!("uid-of-{name}"),
            "labels": {keys::CLUSTER: cluster, keys::INSTANCE: node},
        },
        "status": {"phase": "Running", "podIP": address},
    }))
    .unwrap()
}

fn store<K>(objects: Vec<K>) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    let (store, mut writer) = reflector::store();
    for object in objects {
        writer.apply_watcher_event(&watcher::Event::Apply(object));
    }
    store
}

/// An operator that looks after two clusters.
pub(crate) struct World {
    pub(crate) cache: Authority,
    pub(crate) queue: Authority,
    address: SocketAddr,
    pub(crate) reception: Arc<Reception>,
    told: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl World {
    pub(crate) async fn new() -> Self {
        let (cache, queue) = (authority("cache"), authority("queue"));
        let reception = Arc::new(Reception::new(DOMAIN, Metrics::new().0));
        let told = Arc::new(Mutex::new(Vec::new()));
        let news = told.clone();
        reception.open(Household {
            namespace: Some("team".to_owned()),
            pods: store(vec![
                pod("cache", "cache-0-0", "valkey-cache-0-0-0", "127.0.0.1"),
                pod("cache", "cache-0-1", "valkey-cache-0-1-0", "10.0.0.9"),
                pod("queue", "queue-0-0", "valkey-queue-0-0-0", "127.0.0.1"),
            ]),
            secrets: store(vec![
                operators_secret("cache", &cache),
                operators_secret("queue", &queue),
                // Whoever may write Secrets may write this one.
                Secret {
                    metadata: ObjectMeta {
                        name: Some(names::operator_certificate("forged")),
                        ..operators_secret("cache", &cache).metadata
                    },
                    ..operators_secret("forged", &cache)
                },
            ]),
            bindings: store(["cache", "queue", "forged"].map(binding).into()),
            news: Arc::new(move |member| news.lock().unwrap().push(member.node.clone())),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let door = Door::new(reception.clone()).unwrap();
        tokio::spawn(serve(listener, door, reception.clone(), stop.clone()));
        Self { cache, queue, address, reception, told, _stop: stop.drop_guard() }
    }

    fn agent(&self) -> Credentials {
        credentials(&self.cache, &leaf(agent("cache", "valkey-cache-0-0-0"), Timestamp::now()), &self.cache)
    }

    /// What comes back for these bytes; nothing if somebody was not let in.
    async fn send(&self, with: &Credentials, bytes: &[u8]) -> Option<String> {
        let whom = Whom::Just(identity("cache", Role::Operator, None));
        let called = Called { address: self.address, whom };
        let mut stream = call(&called, with, SOON).await.ok()?;
        let mut answer = String::new();
        // Whoever is refused learns it while it speaks or listens.
        let spoken = async {
            stream.write_all(bytes).await?;
            stream.read_to_string(&mut answer).await
        };
        let spoken = tokio::time::timeout(SOON, spoken).await.expect("an answer or an end");
        spoken.ok().map(|_| answer).filter(|answer| !answer.is_empty())
    }

    async fn post(&self, with: &Credentials, path: &str, body: &str) -> Option<(u16, serde_json::Value)> {
        let length = body.len();
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: operator\r\ncontent-length: {length}\r\n\r\n{body}");
        Some(read(&self.send(with, request.as_bytes()).await?))
    }

    pub(crate) async fn beat(
        &self,
        with: &Credentials,
        heartbeat: &Heartbeat,
    ) -> Option<(u16, serde_json::Value)> {
        self.post(with, "/v1/heartbeat", &serde_json::to_string(heartbeat).unwrap()).await
    }

    fn refusals(&self, reason: &'static str) -> u64 {
        self.reception.metrics.agents.refusals(reason)
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

fn read(answer: &str) -> (u16, serde_json::Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

pub(crate) fn heartbeat(sequence: u64, revision: u64, told: bool) -> Heartbeat {
    let report = Report {
        agent: "0.1.0".to_owned(),
        sets_directives: true,
        server: ServerState::Starting,
        users: UsersFile::default(),
    };
    Heartbeat {
        stamp: Stamp { pod_uid: "uid-of-valkey-cache-0-0-0".to_owned(), session: 7, sequence },
        revision,
        report: told.then_some(report),
    }
}

fn reply(wants_report: bool) -> (u16, serde_json::Value) {
    // Whoever has just begun to listen does not know to whom somebody before it agreed.
    (200, serde_json::to_value(Reply { wants_report, objects: true, ..Reply::default() }).unwrap())
}

fn fresh(world: &World) -> bool {
    let reports = &world.reception.reports;
    reports.fresh("uid-of-valkey-cache-0-0-0", std::time::Instant::now()).is_some()
}

#[tokio::test]
async fn an_agent_is_heard_and_told_what_is_missing() {
    let world = World::new().await;
    let agent = world.agent();
    assert_eq!(world.beat(&agent, &heartbeat(1, 1, false)).await, Some(reply(true)));
    assert!(!fresh(&world) && world.told().is_empty());
    assert_eq!(world.beat(&agent, &heartbeat(2, 1, true)).await, Some(reply(false)));
    assert!(fresh(&world));
    assert_eq!(world.told(), ["cache-0-0"]);
    // Nothing happened: nobody is woken.
    assert_eq!(world.beat(&agent, &heartbeat(3, 1, false)).await, Some(reply(false)));
    assert!(world.told().is_empty());
}

/// Its pod may be gone from the API, by force, while its server still counts on what it was told.
#[tokio::test]
async fn whoever_is_heard_is_known_by_its_place_too() {
    let world = World::new().await;
    let heard_at = |place: &str| world.reception.promises().unwrap().contact(place);
    assert_eq!(heard_at("team/cache/127.0.0.1"), None);
    world.beat(&world.agent(), &heartbeat(1, 1, true)).await.unwrap();
    assert_eq!(heard_at("team/cache/127.0.0.1"), heard_at("uid-of-valkey-cache-0-0-0"));
    assert!(heard_at("team/cache/127.0.0.1").is_some());
    assert_eq!(heard_at("team/queue/127.0.0.1"), None, "an address is somebody else's in another cluster");
}

#[tokio::test]
async fn an_event_is_told_at_once_also_one_of_a_newer_agent() {
    let world = World::new().await;
    let agent = world.agent();
    world.beat(&agent, &heartbeat(1, 1, true)).await.unwrap();
    world.told();
    for (sequence, event) in
        [(2, json!({"kind": "serverDied", "runId": "9f"})), (3, json!({"kind": "sneezed"}))]
    {
        let stamp = heartbeat(sequence, 1, false).stamp;
        let happened = json!({"stamp": stamp, "event": event, "revision": 1}).to_string();
        assert_eq!(world.post(&agent, "/v1/events", &happened).await, Some(reply(false)));
        assert_eq!(world.told(), ["cache-0-0"]);
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_changes_nothing() {
    let world = World::new().await;
    let agent = world.agent();
    world.beat(&agent, &heartbeat(5, 1, true)).await.unwrap();
    world.told();
    let again = serde_json::to_string(&heartbeat(5, 2, true)).unwrap();
    let other = serde_json::to_string(&Heartbeat {
        stamp: Stamp { pod_uid: "uid-of-valkey-cache-0-1-0".to_owned(), session: 7, sequence: 9 },
        ..heartbeat(9, 2, true)
    })
    .unwrap();
    let long = format!("{{\"x\": \"{}\"}}", "x".repeat(LONGEST));
    for (path, body, status, outcome) in [
        ("/v1/heartbeat", again.as_str(), 409, "replayed"),
        ("/v1/heartbeat", other.as_str(), 403, "anotherPod"),
        ("/v1/heartbeat", "", 400, "malformed"),
        ("/v1/heartbeat", "{", 400, "malformed"),
        ("/v1/heartbeat", "{\"stamp\": 5, \"revision\": \"hunter2\"}", 400, "malformed"),
        ("/v1/heartbeat", "[[[[[[[[[[[[[[[[[[[[", 400, "malformed"),
        ("/v1/events", again.as_str(), 400, "malformed"),
        ("/v1/heartbeat", long.as_str(), 413, "tooLong"),
        ("/v2/heartbeat", "{}", 404, "notFound"),
        ("/", "{}", 404, "notFound"),
    ] {
        let before = world.reception.metrics.agents.count(outcome);
        let answer = world.post(&agent, path, body).await;
        // Of an answer that came while it was still speaking, the speaker may hear nothing.
        if let Some((answered, words)) = answer {
            assert_eq!(answered, status, "{path} {outcome}: {words}");
            assert!(!words.to_string().contains("hunter2"), "{words}");
        } else {
            assert_eq!(outcome, "tooLong");
        }
        assert_eq!(world.reception.metrics.agents.count(outcome), before + 1, "{outcome}");
        assert!(fresh(&world) && world.told().is_empty(), "{outcome}");
    }
    let (status, _) =
        read(&world.send(&agent, b"GET /v1/heartbeat HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap());
    assert_eq!(status, 405);
}

#[tokio::test]
async fn bytes_that_are_no_http_end_the_connection_and_nothing_else() {
    let world = World::new().await;
    let agent = world.agent();
    let endless = vec![b'a'; 256 * 1024];
    for bytes in [b"\0\0\0\0\r\n\r\n".as_slice(), b"PING\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", &endless] {
        let answer = world.send(&agent, bytes).await;
        assert!(answer.as_ref().is_none_or(|text| read(text).0 >= 400), "{answer:?}");
    }
    assert_eq!(world.beat(&agent, &heartbeat(1, 1, true)).await, Some(reply(false)));
}

#[tokio::test]
async fn nobody_is_let_in_whose_certificate_is_not_for_it() {
    let world = World::new().await;
    let now = Timestamp::now();
    let own = agent("cache", "valkey-cache-0-0-0");
    let long_ago = leaf(own.clone(), now - SignedDuration::from_hours(5));
    let operator = leaf(identity("cache", Role::Operator, None), now);
    let nowhere = leaf(identity("cache", Role::Sidecar, None), now);
    for (what, with, reason) in [
        ("of another cluster", credentials(&world.queue, &leaf(own, now), &world.cache), "notBelieved"),
        ("over", credentials(&world.cache, &long_ago, &world.cache), "notValidNow"),
        ("the operator's", credentials(&world.cache, &operator, &world.cache), "notAdmitted"),
        ("of no pod", credentials(&world.cache, &nowhere, &world.cache), "notAdmitted"),
    ] {
        let before = world.refusals(reason);
        assert_eq!(world.beat(&with, &heartbeat(1, 1, true)).await, None, "{what}");
        assert_eq!(world.refusals(reason), before + 1, "{what}");
    }
    assert!(!fresh(&world) && world.told().is_empty());
}

#[test]
fn a_secret_that_no_binding_of_the_cluster_made_is_not_the_operators() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new().await;
        let shows = |cluster: &str| {
            world.reception.credentials(&identity(cluster, Role::Operator, None).home()).is_some()
        };
        assert!(shows("cache") && shows("queue"));
        assert!(!shows("forged") && !shows("other"));
    });
}

#[tokio::test]
async fn one_address_does_not_keep_others_out() {
    let world = World::new().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(TcpStream::connect(world.address).await.unwrap());
    }
    // The ninth is sent away at once, the eighth when its time is over.
    let mut ninth = [0];
    let read = tokio::time::timeout(Duration::from_secs(1), idle[8].read(&mut ninth)).await;
    assert!(read.is_ok_and(|read| read.is_err() || read.is_ok_and(|bytes| bytes == 0)));
    assert!(world.refusals("tooMany") >= 1);
    drop(idle);
    // There is room again as soon as the operator has noticed that they are gone.
    let heard = async {
        while world.beat(&world.agent(), &heartbeat(1, 1, true)).await != Some(reply(false)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, heard).await.expect("should be heard");
}

#[tokio::test]
async fn plain_text_is_not_answered() {
    let world = World::new().await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(b"POST /v1/heartbeat HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("an end");
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
    assert_eq!(world.refusals("notTls"), 1);
}

#[tokio::test]
async fn an_agent_speaks_for_its_own_pod_only() {
    let world = World::new().await;
    let now = Timestamp::now();
    let with = |pod: &str| credentials(&world.cache, &leaf(agent("cache", pod), now), &world.cache);
    // A certificate that was carried to another pod, one for a pod that is not there, and one for a pod of another cluster.
    for (pod, outcome) in [
        ("valkey-cache-0-1-0", "wrongAddress"),
        ("valkey-cache-7-7-0", "noSuchPod"),
        ("valkey-queue-0-0-0", "noSuchPod"),
    ] {
        let stamp = Stamp { pod_uid: format!("uid-of-{pod}"), session: 1, sequence: 1 };
        let beat = Heartbeat { stamp, ..heartbeat(1, 1, true) };
        let (status, _) = world.beat(&with(pod), &beat).await.unwrap();
        assert_eq!((status, world.reception.metrics.agents.count(outcome) > 0), (403, true), "{pod}");
    }
    assert!(world.told().is_empty());
}

#[test]
fn who_speaks_for_a_pod_is_decided_by_name_cluster_and_address() {
    let here: IpAddr = "10.1.0.1".parse().unwrap();
    let pods = || {
        let ended: Pod = {
            let mut pod = pod("cache", "cache-2-0", "valkey-cache-2-0-0", "10.1.0.1");
            pod.status.as_mut().unwrap().phase = Some("Failed".to_owned());
            pod
        };
        vec![
            pod("cache", "cache-0-0", "valkey-cache-0-0-0", "10.1.0.1"),
            pod("cache", "cache-1-0", "valkey-cache-1-0-7d4f-x2", "10.1.0.1"),
            pod("cache", "cache-1-1", "valkey-cache-1-10", "10.1.0.1"),
            ended,
        ]
        .into_iter()
        .map(Arc::new)
    };
    let said = |identity: &Identity, address| member(identity, address, pods()).map(|member| member.node);
    let node = |name: &str| Ok(name.to_owned());
    assert_eq!(said(&agent("cache", "valkey-cache-0-0-0"), here), node("cache-0-0"));
    // A Deployment's pods are known by their workload.
    assert_eq!(said(&agent("cache", "valkey-cache-1-0"), here), node("cache-1-0"));
    assert_eq!(said(&agent("cache", "valkey-cache-1-1"), here), Err(Unwelcome::NoSuchPod));
    assert_eq!(said(&agent("queue", "valkey-cache-0-0-0"), here), Err(Unwelcome::NoSuchPod));
    assert_eq!(said(&agent("cache", "valkey-cache-2-0-0"), here), Err(Unwelcome::WrongAddress));
    let there = "10.1.0.2".parse().unwrap();
    assert_eq!(said(&agent("cache", "valkey-cache-0-0-0"), there), Err(Unwelcome::WrongAddress));
    assert_eq!(
        said(&identity("cache", Role::Init, Some("valkey-cache-0-0-0")), here),
        Err(Unwelcome::NoAgent)
    );
}
