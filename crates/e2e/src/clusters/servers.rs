//! The servers of a cluster, one by one.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use api::keys;
use devcluster::Target as ClusterTarget;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use secrecy::SecretString;
use valkey::acl::SystemUser;
use valkey::{Connection, Error, Target};

use crate::World;
use crate::access::Address;

/// Pause between two looks at a server: short, because what is waited for is measured.
const EVERY: Duration = Duration::from_millis(20);

/// A server of a cluster.
#[derive(Clone, Debug)]
pub struct Server {
    /// Name of its ValkeyNode.
    pub node: String,
    /// The pod it runs in.
    pub pod: Pod,
    /// Where the others find it.
    pub address: Address,
    /// Where we find it, and as the operator's user.
    pub target: Target,
}

impl Server {
    /// A connection as the operator's user.
    pub async fn open(&self) -> Result<Connection, Error> {
        Connection::open(&self.target).await
    }

    /// A connection as somebody else.
    pub async fn open_as(&self, user: &str, password: &str) -> Result<Connection, Error> {
        let target = self.target.clone().with_credentials(Some(user), SecretString::from(password));
        Connection::open(&target).await
    }

    /// Whether somebody is let in. Only a refusal is a no: silence is an error.
    pub async fn lets_in(&self, user: &str, password: &str) -> Result<bool, Error> {
        match self.open_as(user, password).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_auth() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Its users as it lists them, sorted.
    pub async fn users(&self) -> Vec<String> {
        let listed = self.open().await.expect("should answer").acl_list().await.expect("should list users");
        listed.users.iter().map(|(name, user)| format!("{name}: {user:?}")).collect()
    }
}

impl World {
    /// The servers of a cluster whose pods have an address, by the names of their nodes.
    pub async fn cluster_servers(&self, cluster: &str) -> Vec<Server> {
        let user = SystemUser::Operator.name();
        let password = self.system_password(cluster, user).await;
        let tls = self.cluster_tls(cluster).await;
        let mut servers = Vec::new();
        for pod in self.cluster_pods(cluster).await.into_iter().flatten() {
            let Some(ip) = pod.status.as_ref().and_then(|status| status.pod_ip.clone()) else { continue };
            let port = api::names::SERVER_PORT;
            let here = self.reach(&pod, port).await;
            let mut target = Target::tcp(here.host, here.port).with_credentials(Some(user), password.clone());
            target.tls.clone_from(&tls);
            servers.push(Server {
                node: pod.labels().get(keys::INSTANCE).cloned().unwrap_or_default(),
                address: Address::new(ip, port),
                target,
                pod,
            });
        }
        servers.sort_by(|one, other| one.node.cmp(&other.node));
        servers
    }

    /// The server of a node.
    pub async fn cluster_server(&self, cluster: &str, node: &str) -> Server {
        let servers = self.cluster_servers(cluster).await;
        let found = servers.into_iter().find(|server| server.node == node);
        found.unwrap_or_else(|| panic!("{node} should have a server"))
    }

    /// The primaries of a cluster, shard by shard.
    pub async fn primaries(&self, cluster: &str) -> Vec<Server> {
        let servers = self.cluster_servers(cluster).await;
        let shards = self.cluster_status(cluster).await.shard_details;
        let primary = |shard: &api::cluster::ShardStatus| {
            let primary = shard.primary.as_ref().expect("should have a primary");
            let server = servers.iter().find(|server| server.node == *primary);
            server.unwrap_or_else(|| panic!("{primary} should have a server")).clone()
        };
        shards.iter().map(primary).collect()
    }

    /// A port of a pod, as it can be reached from here.
    pub async fn reach(&self, pod: &Pod, port: u16) -> Address {
        match &self.target {
            ClusterTarget::Local(_) => {
                let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
                Address::new(ip.expect("should have an address"), port)
            }
            // The pod network of another cluster is out of reach; its API server is not.
            ClusterTarget::External(_) => {
                Address::new("127.0.0.1", self.forward(&pod.name_any(), port).await)
            }
        }
    }
}

/// Waits until something holds on every server, all looked at at once; returns how long that took. A server that does not
/// answer does not count as one on which it holds.
pub async fn everywhere<E, F>(what: &str, servers: &[Server], patience: Duration, holds: F) -> Duration
where
    E: Debug,
    F: AsyncFn(&Server) -> Result<Result<(), E>, Error>,
{
    assert!(!servers.is_empty(), "{what}: there is no server");
    let begun = Instant::now();
    let holds = &holds;
    let waits = servers.iter().map(|server| async move {
        loop {
            let seen = match holds(server).await {
                Ok(Ok(())) => return,
                Ok(Err(seen)) => format!("{seen:?}"),
                Err(error) => error.to_string(),
            };
            let node = &server.node;
            assert!(begun.elapsed() <= patience, "{what}: not within {patience:?} on {node}: {seen}");
            tokio::time::sleep(EVERY).await;
        }
    });
    futures::future::join_all(waits).await;
    begun.elapsed()
}
