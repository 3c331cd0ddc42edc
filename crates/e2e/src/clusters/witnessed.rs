//! Clusters whose client is the witness.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;
use serde_json::{Value, json};

use valkey::{Connection, Deadlines};

use super::Server;
use crate::access::Access;
use crate::witness::{Settings, Verdict, Witness};
use crate::{World, wait};

/// How long a cluster may take to be whole again.
pub const WHOLE_WITHIN: Duration = Duration::from_mins(2);
const USER: &str = "app";
const PASSWORD: &str = "witness-secret-1";

impl World {
    /// Make a cluster with a user for the witness, and wait until it is ready.
    pub async fn witnessed_cluster(&self, name: &str, spec: Value) {
        self.begin_witnessed_cluster(name, spec).await;
        self.wait_cluster_ready(name).await;
    }

    /// Ask for a cluster with a user for the witness.
    pub async fn begin_witnessed_cluster(&self, name: &str, mut spec: Value) {
        let secret =
            json!({"metadata": {"name": api::names::users_secret(name)}, "stringData": {USER: PASSWORD}});
        self.create::<Secret>(secret).await;
        spec["users"] = json!([witness_user()]);
        self.cluster(name, spec).await;
    }

    /// The witness's way into a cluster, by the addresses its pods have now.
    pub async fn witness_access(&self, name: &str) -> Access {
        let servers = self.wanted(name).await.shards.into_iter().flatten();
        let mut access = Access::open(servers).with_credentials(Some(USER), SecretString::from(PASSWORD));
        access.tls = self.cluster_tls(name).await;
        access
    }

    /// A connection of the witness's user to one server, for whoever has so much patience.
    pub async fn writer(server: &Server, patience: Deadlines) -> Result<Connection, valkey::Error> {
        let target = server.target.clone().with_credentials(Some(USER), SecretString::from(PASSWORD));
        Connection::open(&target.with_deadlines(patience)).await
    }

    /// What resolving the cluster's name tells clients, again and again.
    async fn tell_addresses(&self, name: &str, witness: &Witness) {
        loop {
            let addresses: Vec<_> = self.wanted(name).await.shards.into_iter().flatten().collect();
            if !addresses.is_empty() {
                witness.found_at(addresses);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Do something to a cluster under the witness, wait until the cluster is whole and every shard takes writes, and look
    /// for everything that was acknowledged. Returns also how long it took until the cluster was whole.
    pub async fn under_witness(&self, name: &str, work: impl Future<Output = ()>) -> (Verdict, Duration) {
        let access = self.witness_access(name).await;
        let witness = Witness::start(Settings::new(access)).await.expect("should start");
        let begun = Instant::now();
        let all = Box::pin(async {
            work.await;
            self.wait_cluster_ready(name).await;
            self.wait_whole(name, WHOLE_WITHIN).await;
            let took = begun.elapsed();
            serves_again(&witness).await;
            took
        });
        let took = tokio::select! {
            took = all => took,
            () = self.tell_addresses(name, &witness) => unreachable!("it tells for ever"),
        };
        let report = witness.stop().await;
        let verdict = report.verify(&self.witness_access(name).await).await.expect("should find its keys");
        (verdict, took)
    }
}

/// The user of the spec that the witness is.
pub fn witness_user() -> Value {
    json!({"name": USER, "permissions": "+@all ~*"})
}

/// Every shard takes writes again, so that a stall is measured to its end.
async fn serves_again(witness: &Witness) {
    wait::until("every shard takes writes", Duration::from_secs(20), async || {
        let silence = witness.progress().silence;
        if silence < Duration::from_millis(500) { Ok(()) } else { Err(silence) }
    })
    .await;
}
