//! The operator's word on who may replace a primary, where the agents beside its servers are too few to decide: it keeps the same promise
//! as they do. Whoever's agent it heard a moment ago is not replaced, and whoever may be replaced is told so instead of being heard.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{keys, names};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use proto::heartbeat::Event;

use super::member::{Member, addresses};
use super::reception::Reception;

/// How long nobody is replaced who was heard: longer than agents count on it.
pub(super) const SUSPICION: Duration = Duration::from_secs(3);

/// A primary that is missed, and by whom.
#[derive(Debug)]
pub(super) struct Missed {
    /// The pod it is in, or where it was if there is none.
    primary: String,
    server: SocketAddr,
    by: String,
}

impl Missed {
    /// What an agent asks, if it may: about somebody of its own shard.
    pub(super) fn of(event: &Event, by: &Member, pods: impl Iterator<Item = Arc<Pod>>) -> Option<Self> {
        let Event::PrimaryMissed { ip, port, .. } = event else { return None };
        let mut of_cluster = pods.filter(|pod| {
            pod.metadata.namespace.as_ref() == Some(&by.namespace)
                && pod.labels().get(keys::CLUSTER) == Some(&by.cluster)
        });
        let mut shard = None;
        let mut there = None;
        for pod in &mut of_cluster {
            let its_shard = pod.labels().get(keys::SHARD_INDEX).cloned();
            if pod.uid().as_deref() == Some(&by.uid) {
                shard = its_shard;
            } else if addresses(&pod).any(|address| address == *ip) {
                there = Some((pod.uid().unwrap_or_default(), its_shard));
            }
        }
        let primary = match there {
            Some((uid, its_shard)) if its_shard == shard => uid,
            Some(_) => return None,
            None => place_of(by, *ip),
        };
        Some(Self { primary, server: SocketAddr::new(*ip, *port), by: by.uid.clone() })
    }
}

/// No pod's uid: where a member of a cluster is or was. Whoever is heard is known by it too, because its pod may be gone from the API
/// while its server still counts on our word.
pub(super) fn place_of(member: &Member, ip: IpAddr) -> String {
    format!("{}/{}/{ip}", member.namespace, member.cluster)
}

impl Reception {
    /// Whether it may be replaced.
    pub(super) async fn agrees(&self, missed: &Missed) -> bool {
        let Missed { primary, server, by } = missed;
        let agent = SocketAddr::new(server.ip(), names::SIDECAR_PORT);
        let is_there = channel::is_there(*server, agent).await;
        let agreed = self
            .promises()
            .is_some_and(|mut promises| promises.agree(primary, by, is_there, Instant::now()).is_ok());
        if agreed {
            tracing::info!(%primary, %by, "a primary is missed, and may be replaced");
        } else {
            tracing::debug!(%primary, %by, "a primary is missed by one of its replicas");
        }
        agreed
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, cluster: &str, shard: &str, ip: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": uid, "namespace": "team", "uid": uid, "labels": {keys::CLUSTER: cluster, keys::SHARD_INDEX: shard}},
            "status": {"podIP": ip},
        });
        Arc::new(serde_json::from_value(pod).expect("should be a pod"))
    }

    #[test]
    fn only_somebody_of_the_same_shard_can_be_missed() {
        let by = Member {
            namespace: "team".to_owned(),
            cluster: "cache".to_owned(),
            node: "cache-0-1".to_owned(),
            uid: "r".to_owned(),
        };
        let pods = || {
            let all = [
                pod("r", "cache", "0", "10.0.0.2"),
                pod("p", "cache", "0", "10.0.0.1"),
                pod("q", "cache", "1", "10.0.0.3"),
                pod("x", "other", "0", "10.0.0.4"),
            ];
            all.into_iter()
        };
        for (ip, expected) in [
            ("10.0.0.1", Some("p")),
            ("10.0.0.3", None),
            ("10.0.0.4", Some("team/cache/10.0.0.4")),
            ("10.0.0.9", Some("team/cache/10.0.0.9")),
        ] {
            let event = Event::PrimaryMissed {
                node_id: "a".to_owned(),
                ip: ip.parse().expect("should be an address"),
                port: 6379,
            };
            let missed = Missed::of(&event, &by, pods()).map(|missed| missed.primary);
            assert_eq!(missed.as_deref(), expected, "{ip}");
        }
        let died = Event::ServerDied { run_id: "a".to_owned() };
        assert!(Missed::of(&died, &by, pods()).is_none());
    }
}
