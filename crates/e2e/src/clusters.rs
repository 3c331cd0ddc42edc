//! ValkeyClusters in tests: where their servers are, for the witness and the invariants; making them and waiting for
//! them; talking to their servers one by one.

mod life;
mod logins;
mod servers;
mod tls;
mod witnessed;

use std::collections::BTreeMap;

use api::keys;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kube::api::ListParams;
use secrecy::SecretString;

use crate::World;
use crate::access::{Access, Address};
use crate::invariants::Wanted;

pub use life::condition;
pub use logins::Logins;
pub use servers::{Server, everywhere};
pub use tls::Authority;
pub use witnessed::{WHOLE_WITHIN, witness_user};

impl World {
    /// The pods of a cluster, shard by shard.
    pub async fn cluster_pods(&self, cluster: &str) -> Vec<Vec<Pod>> {
        let selector = ListParams::default().labels(&format!("{}={cluster}", keys::CLUSTER));
        let pods = self.api::<Pod>().list(&selector).await.expect("should list pods");
        let mut shards = BTreeMap::<u32, Vec<Pod>>::new();
        for pod in pods {
            let shard = pod.labels().get(keys::SHARD_INDEX).and_then(|shard| shard.parse().ok());
            let shard = shard.unwrap_or_else(|| panic!("{} should say which shard it is of", pod.name_any()));
            shards.entry(shard).or_default().push(pod);
        }
        shards.into_values().collect()
    }

    /// The servers of a cluster as they should know each other: those of all pods that have an address.
    pub async fn wanted(&self, cluster: &str) -> Wanted {
        let address = |pod: &Pod| {
            let ip = pod.status.as_ref()?.pod_ip.clone()?;
            Some(Address::new(ip, api::names::SERVER_PORT))
        };
        let shards = self.cluster_pods(cluster).await;
        Wanted { shards: shards.iter().map(|pods| pods.iter().filter_map(address).collect()).collect() }
    }

    /// The way into a cluster as one of its system users, by the addresses its pods have now.
    pub async fn system_access(&self, cluster: &str, user: &str) -> Access {
        let password = self.system_password(cluster, user).await;
        let servers = self.wanted(cluster).await.shards.into_iter().flatten();
        Access::open(servers).with_credentials(Some(user), password)
    }

    /// The password of a system user.
    pub async fn system_password(&self, cluster: &str, user: &str) -> SecretString {
        let secret = self.get::<Secret>(&api::names::system_passwords_secret(cluster)).await;
        let password = secret.data.and_then(|mut data| data.remove(user)).expect("should hold the password");
        SecretString::from(String::from_utf8(password.0).expect("a password should be text"))
    }
}
