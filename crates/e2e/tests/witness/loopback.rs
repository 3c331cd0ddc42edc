//! A cluster of servers on loopback, formed by hand.

use std::process::{Child, Command, Stdio};

use e2e::access::{Access, Address};
use e2e::invariants::{self, Observation, Wanted};
use e2e::wait;
use valkey::testing::{Release, Server};
use valkey::{Connection, Deadlines, SlotRange};

use crate::PATIENCE;

const DEADLINES: Deadlines = Deadlines { connect: PATIENCE, command: PATIENCE };
/// Long enough that a password can be looked for in texts.
pub(crate) const PASSWORD: &str = "hush-hush-hush";

pub(crate) struct Loopback {
    release: Release,
    /// By shard, the first primary first.
    pub(crate) shards: Vec<Vec<Server>>,
    /// Servers that came back.
    returned: Vec<Child>,
}

impl Loopback {
    /// As many shards, each with as many replicas, all slots, everybody in sync.
    pub(crate) async fn form(release: Release, shards: usize, replicas: usize) -> Self {
        let conf = format!(
            "cluster-enabled yes\ncluster-announce-ip 127.0.0.1\nenable-debug-command yes\n\
             requirepass {PASSWORD}\nprimaryauth {PASSWORD}\n"
        );
        let start = || Server::start(release, &conf).unwrap_or_else(|error| panic!("{error}"));
        let shards: Vec<Vec<Server>> =
            (0..shards).map(|_| (0..=replicas).map(|_| start()).collect()).collect();
        let cluster = Self { release, shards, returned: Vec::new() };
        cluster.introduce().await;
        cluster.hand_out_slots().await;
        cluster.attach_replicas().await;
        cluster.wait_until_whole().await;
        cluster
    }

    async fn introduce(&self) {
        let first = self.open(&self.shards[0][0]).await;
        for (epoch, server) in (1..).zip(self.shards.iter().flatten()) {
            let connection = self.open(server).await;
            say(&connection, &["CLUSTER", "SET-CONFIG-EPOCH", &i32::to_string(&epoch)]).await;
            let bus = connection.config_get(&["cluster-port"]).await.unwrap()["cluster-port"].clone();
            say(&first, &["CLUSTER", "MEET", "127.0.0.1", &server.port().to_string(), &bus]).await;
        }
        invariants::eventually("all know each other", PATIENCE, async || {
            let observation = self.observe().await;
            [invariants::only_members(&observation), invariants::no_troubled_members(&observation)].concat()
        })
        .await;
    }

    async fn hand_out_slots(&self) {
        let count = self.shards.len();
        let slot = |number: usize| u16::try_from(16384 * number / count).unwrap();
        for (number, members) in self.shards.iter().enumerate() {
            let range = SlotRange::new(slot(number), slot(number + 1) - 1).unwrap();
            self.open(&members[0]).await.cluster_add_slots(&[range]).await.unwrap();
        }
    }

    async fn attach_replicas(&self) {
        for members in &self.shards {
            let id = self.id(&members[0]).await;
            for replica in &members[1..] {
                say(&self.open(replica).await, &["CLUSTER", "REPLICATE", &id]).await;
            }
        }
    }

    pub(crate) async fn wait_until_whole(&self) {
        invariants::eventually("the cluster is whole", PATIENCE, async || {
            invariants::all(&self.observe().await, &self.wanted())
        })
        .await;
    }

    pub(crate) async fn observe(&self) -> Observation {
        Observation::of(&self.access(), &self.wanted()).await
    }

    pub(crate) fn access(&self) -> Access {
        // One seed is enough; the others are learned.
        Access::open([address(&self.shards[0][0])]).with_credentials(None, PASSWORD.into())
    }

    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { shards: self.shards.iter().map(|members| members.iter().map(address).collect()).collect() }
    }

    pub(crate) async fn open(&self, server: &Server) -> Connection {
        let target = self.access().target(&address(server), DEADLINES);
        wait::until("the server answers", PATIENCE, async || Connection::open(&target).await).await
    }

    pub(crate) async fn id(&self, server: &Server) -> String {
        self.open(server).await.cluster_myid().await.unwrap()
    }

    /// Kills a server and starts it again with the configuration and the node id it had. Nothing was on its disk.
    pub(crate) async fn kill_and_bring_back_empty(&mut self, shard: usize) {
        let release = self.release;
        let server = &mut self.shards[shard][0];
        server.kill();
        let child = Command::new(release.program("valkey-server"))
            .arg(server.directory().join("valkey.conf"))
            .stdout(Stdio::null())
            .spawn()
            .expect("should start again");
        self.returned.push(child);
        self.open(&self.shards[shard][0]).await;
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        for child in &mut self.returned {
            // Gone or about to go: both is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn address(server: &Server) -> Address {
    Address::new("127.0.0.1", server.port())
}

pub(crate) async fn say(connection: &Connection, words: &[&str]) {
    connection.raw(words).await.unwrap_or_else(|error| panic!("{words:?}: {error}"));
}
