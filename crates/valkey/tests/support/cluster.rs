//! A cluster of real servers on loopback.

use std::collections::BTreeSet;

use secrecy::SecretString;
use valkey::cluster::{ClusterHealth, Flag};
use valkey::testing::{Release, Server};
use valkey::{Connection, SlotRange, Target};

use super::{connect, eventually, start};

/// One member.
pub(crate) struct Member {
    pub(crate) server: Server,
    pub(crate) connection: Connection,
    pub(crate) id: String,
}

/// Who speaks to the members.
pub(crate) type Login<'a> = Option<(&'a str, &'a SecretString)>;

/// What every member runs with. A short timeout makes tests short; failovers here do not wait for it.
const CONF: &str = "cluster-enabled yes\ncluster-announce-ip 127.0.0.1\ncluster-node-timeout 5000\n\
    cluster-allow-replica-migration no\nrepl-ping-replica-period 1";

pub(crate) fn target(server: &Server, login: Login<'_>) -> Target {
    match login {
        Some((user, password)) => server.target().with_credentials(Some(user), password.clone()),
        None => server.target(),
    }
}

impl Member {
    /// A server in cluster mode that nobody knows yet.
    pub(crate) async fn start(release: Release, conf: &str, login: Login<'_>) -> Self {
        let server = start(release, &format!("{CONF}\n{conf}"));
        let connection = connect(target(&server, login)).await.expect("should let us in");
        let id = connection.cluster_myid().await.expect("should have an id");
        Self { server, connection, id }
    }

    pub(crate) async fn health(&self) -> ClusterHealth {
        self.connection.cluster_health().await.expect("should answer")
    }

    /// Whether this node's table lists the other as a full member.
    async fn knows(&self, other: &str) -> bool {
        let table = self.connection.cluster_nodes().await.expect("should answer");
        table.get(other).is_some_and(|node| !node.flags.contains(&Flag::Handshake))
    }

    /// Waits until the node is the primary of its shard, and serves.
    pub(crate) async fn leads(&self) {
        eventually("the node leads", || async {
            let table = self.connection.cluster_nodes().await.expect("should answer");
            let myself = table.myself().expect("should be listed");
            (myself.is_primary() && !myself.slots.is_empty()).then_some(())
        })
        .await;
    }
}

/// Introduces the members to each other: each has an epoch of its own before it meets anybody.
pub(crate) async fn introduce(members: &[Member]) {
    for (epoch, member) in (1..).zip(members) {
        member.connection.cluster_set_config_epoch(epoch).await.expect("should take an epoch");
    }
    let (first, others) = members.split_first().expect("should have members");
    for other in others {
        first.connection.cluster_meet("127.0.0.1", other.server.port()).await.expect("should meet");
    }
    eventually("everybody knows everybody", || async {
        for member in members {
            for other in members {
                if !member.knows(&other.id).await {
                    return None;
                }
            }
        }
        Some(())
    })
    .await;
}

/// Makes the replica follow the primary and waits for the first sync.
pub(crate) async fn attach(replica: &Member, primary: &Member) {
    replica.connection.cluster_replicate(&primary.id).await.expect("should follow");
    in_sync(primary, 1).await;
}

/// Waits until so many replicas of the primary have everything it has.
pub(crate) async fn in_sync(primary: &Member, replicas: usize) {
    eventually("the replicas are in sync", || async {
        let info =
            primary.connection.info(&[valkey::client::Section::Replication]).await.expect("should answer");
        let replication = info.replication().expect("should have a role");
        let online = replication.replicas.iter().filter(|replica| replica.is_online());
        (online.count() >= replicas).then_some(())
    })
    .await;
}

/// Waits until every member sees the cluster well, and the same owners of all slots.
pub(crate) async fn agree(members: &[Member]) {
    eventually("the members agree", || async {
        let mut views = BTreeSet::new();
        for member in members {
            let health = member.health().await;
            if !health.state_ok || health.slots_ok != 16384 {
                return None;
            }
            let table = member.connection.cluster_nodes().await.expect("should answer");
            let owners = table.nodes.into_iter().map(|node| (node.id, node.slots, node.primary_id));
            views.insert(owners.collect::<BTreeSet<_>>());
        }
        (views.len() == 1).then_some(())
    })
    .await;
}

/// Three primaries with one replica each: the first three members lead, the others follow in the same order.
pub(crate) async fn form(release: Release, conf: &str, login: Login<'_>) -> Vec<Member> {
    let mut members = Vec::new();
    for _ in 0..6 {
        members.push(Member::start(release, conf, login).await);
    }
    introduce(&members).await;
    for (member, ends) in members.iter().zip([(0, 5460), (5461, 10922), (10923, 16383)]) {
        let range = SlotRange::new(ends.0, ends.1).expect("should be in bounds");
        member.connection.cluster_add_slots(&[range]).await.expect("should take slots");
    }
    for (primary, replica) in members.iter().zip(&members[3..]) {
        attach(replica, primary).await;
    }
    agree(&members).await;
    members
}
