//! The agents beside servers: all of them are heard, nobody else is, and one that falls silent is named.

use std::net::SocketAddr;
use std::time::Duration;

use channel::{Called, Credentials, Whom, call};
use devcluster::faults::{ContainerGroup, Fault, Freeze};
use e2e::{World, operator, world};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kube::api::Api;
use pki::{Certificate, Identity, Role};
use secrecy::SecretString;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const WITHIN: Duration = Duration::from_secs(3);
const MESSAGES: &str = "valkey_operator_agent_messages";
const REFUSALS: &str = "valkey_operator_agent_channel_refusals";

/// Where the operator listens for agents.
async fn operators_ear(world: &World) -> SocketAddr {
    let leader = operator::leader(&world.client).await.expect("somebody should lead");
    let pods = Api::<Pod>::namespaced(world.client.clone(), operator::NAMESPACE);
    let pod = pods.get(&leader).await.expect("should be there");
    let address = pod.status.and_then(|status| status.pod_ip).expect("should have an address");
    SocketAddr::new(address.parse().expect("should be an address"), 17379)
}

/// What an agent shows, and who it is.
async fn stolen(world: &World, node: &str) -> (Credentials, Identity) {
    let secret = world.get::<Secret>(&format!("internal-{node}-mtls")).await;
    let mut parts = secret.data.expect("should hold something");
    let mut text = |key: &str| String::from_utf8(parts.remove(key).expect(key).0).expect("should be text");
    let (chain, key, trusted) = (text("tls.crt"), SecretString::from(text("tls.key")), text("ca.crt"));
    let identity = Certificate::read(&chain).expect("should be a certificate").uris[0].parse();
    let credentials = Credentials::read(&chain, &key, &trusted).expect("should fit together");
    (credentials, identity.expect("should say who it is for"))
}

/// The message of an agent that has nothing to tell.
fn heartbeat(pod_uid: &str) -> String {
    let stamp = json!({"podUid": pod_uid, "session": 1, "sequence": 1});
    let body = json!({"stamp": stamp, "revision": 1}).to_string();
    format!(
        "POST /v1/heartbeat HTTP/1.1\r\nhost: operator\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn answer(mut stream: impl AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    // Whoever is sent away may be so without a word.
    let _ = tokio::time::timeout(WITHIN, stream.read_to_end(&mut answer)).await.expect("should end");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn agents_are_heard_and_nobody_in_their_place() {
    world::run("agents", async |world| {
        world.ready_cluster("heard", json!({"shards": 1, "replicas": 1})).await;
        world.wait_cluster_condition("heard", "SidecarsConnected", "True", "SidecarsHeard").await;
        let ear = operators_ear(world).await;
        let pod = world.get::<Pod>("valkey-heard-0-0-0").await;
        let heartbeat = heartbeat(&pod.uid().expect("should have a uid"));

        // A certificate that was carried out of its pod is believed, and whoever shows it is somewhere else.
        let (credentials, identity) = stolen(world, "heard-0-0").await;
        let called = Called {
            address: ear,
            whom: Whom::Just(Identity { role: Role::Operator, pod: None, ..identity }),
        };
        let counted = operator::counted(&world.client, MESSAGES, async {
            let mut stream = call(&called, &credentials, WITHIN).await.expect("should be let in");
            stream.write_all(heartbeat.as_bytes()).await.expect("should be sent");
            let answer = answer(stream).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
            assert!(answer.contains("the pod is somewhere else"), "{answer}");
        })
        .await;
        // Pods that others have just made may be counted too.
        assert!(counted.get(r#"outcome="wrongAddress""#) >= Some(&1), "{counted:?}");

        // Plain text is no word at all.
        let counted = operator::counted(&world.client, REFUSALS, async {
            let mut stream = TcpStream::connect(ear).await.expect("somebody should listen");
            stream.write_all(heartbeat.as_bytes()).await.expect("should be sent");
            let answer = answer(stream).await;
            assert!(!answer.contains("HTTP"), "{answer}");
        })
        .await;
        assert!(counted.get(r#"reason="notTls""#) >= Some(&1), "{counted:?}");

        let status = world.wait_cluster_ready("heard").await;
        let (state, ..) = e2e::clusters::condition(&status, "SidecarsConnected").expect("should be told");
        assert_eq!(state, "True", "nobody is put off by impostors");
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_falls_silent_is_named_and_its_server_serves_on() {
    world::run("silent-agent", async |world| {
        world.ready_cluster("quiet", json!({"shards": 1, "replicas": 1})).await;
        world.wait_cluster_condition("quiet", "SidecarsConnected", "True", "SidecarsHeard").await;
        let pod = world.get::<Pod>("valkey-quiet-0-1-0").await;
        let group = ContainerGroup::of(&pod, "valkey-sidecar").expect("should find the container");
        let faults = world.local().faults().expect("should be able to break things");
        let freeze = faults.begin(Fault::Freeze(Freeze { group: group.folder })).expect("should freeze");
        let words =
            world.wait_cluster_condition("quiet", "SidecarsConnected", "False", "SidecarsSilent").await;
        assert!(words.contains("quiet-0-1") && !words.contains("quiet-0-0"), "{words}");
        let status = world.cluster_status("quiet").await;
        assert_eq!(status.phase, Some(api::cluster::ClusterPhase::Ready), "{:?}", status.message);
        freeze.heal().expect("should thaw");
        world.wait_cluster_condition("quiet", "SidecarsConnected", "True", "SidecarsHeard").await;
    })
    .await;
}
