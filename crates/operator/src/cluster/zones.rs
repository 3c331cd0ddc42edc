//! Which zone a machine is in. Zones of machines hardly ever change, so an answer is kept for a while and no watch is
//! needed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use kube::{Client, ResourceExt as _};

const LABEL: &str = "topology.kubernetes.io/zone";
const REMEMBER_FOR: Duration = Duration::from_mins(10);
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// Zones that were asked for a short time ago, by machine.
#[derive(Default)]
pub(super) struct Zones(Mutex<HashMap<String, (Instant, Option<String>)>>);

impl Zones {
    /// The zone of a machine, if it has one and may be asked for it.
    pub(super) async fn of(&self, client: &Client, machine: &str) -> Option<String> {
        if let Some(known) = self.recall(machine) {
            return known;
        }
        let machines: Api<Node> = Api::all(client.clone());
        let zone = match tokio::time::timeout(ASK_WITHIN, machines.get_metadata(machine)).await {
            Ok(Ok(found)) => found.labels().get(LABEL).cloned(),
            // A namespaced installation may not look at machines: its servers have no zone, which hurts nobody.
            Ok(Err(error)) => {
                tracing::debug!(error = %kit::telemetry::chain(&error), machine, "the zone of a machine is not known");
                None
            }
            Err(_) => return None,
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(machine.to_owned(), (Instant::now(), zone.clone()));
        zone
    }

    #[expect(clippy::option_option, reason = "not known is something else than no zone")]
    fn recall(&self, machine: &str) -> Option<Option<String>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (since, _)| since.elapsed() < REMEMBER_FOR);
        known.get(machine).map(|(_, zone)| zone.clone())
    }
}
