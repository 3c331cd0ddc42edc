//! What is counted and measured of each ValkeyCluster. These series carry the namespace and the name of their cluster, so
//! there are a few of them per cluster and none per node; they go with the cluster.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Count = Gauge<i64, AtomicI64>;
type Seconds = Gauge<f64, AtomicU64>;

/// Which cluster.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Cluster {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A cluster in a phase.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct InPhase {
    namespace: String,
    name: String,
    phase: &'static str,
}

/// Orders of one kind to take over.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ordered {
    namespace: String,
    name: String,
    kind: &'static str,
}

/// Changes of one kind that go through a cluster.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Changing {
    namespace: String,
    name: String,
    orchestration: &'static str,
}

/// How a replica is told to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failover {
    /// The primary hands over: nothing is lost.
    Planned,
    /// The primary is gone, and the others vote.
    Forced,
    /// The primary is gone, and too few are left to vote.
    Takeover,
}

impl Failover {
    const ALL: [Self; 3] = [Self::Planned, Self::Forced, Self::Takeover];

    const fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Forced => "forced",
            Self::Takeover => "takeover",
        }
    }
}

/// What a pass says of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The phase it is in.
    pub phase: &'static str,
    /// Shards that the spec asks for.
    pub shards_wanted: u32,
    /// Shards that serve with every copy they should have.
    pub shards_ready: u32,
    /// Nodes that the spec asks for.
    pub nodes_wanted: u32,
    /// Primaries, and replicas that have what their primary has.
    pub nodes_in_sync: u32,
    /// Slots whose owner answers.
    pub slots_served: u32,
    /// Servers that refused the operator's password and let it in as somebody else.
    pub auth_fallbacks: u32,
    /// Orders to take over that were obeyed in this pass.
    pub failovers: Vec<Failover>,
    /// Moves of slots that were begun in this pass.
    pub migrations_started: u32,
    /// Names of the moves that the servers remember as failed, those of earlier passes among them.
    pub migrations_failed: BTreeSet<String>,
    /// Moves that failed in this pass, besides those with names.
    pub migrations_failed_now: u32,
    /// The change that goes through the cluster.
    pub orchestration: Option<&'static str>,
    /// The change that ended with this pass, and how long it took.
    pub ended: Option<(&'static str, Duration)>,
}

/// The metrics of all clusters.
#[derive(Clone, Default)]
pub struct Clusters {
    phase: Family<InPhase, Count>,
    shards_wanted: Family<Cluster, Count>,
    shards_ready: Family<Cluster, Count>,
    nodes_wanted: Family<Cluster, Count>,
    nodes_in_sync: Family<Cluster, Count>,
    slots_served: Family<Cluster, Count>,
    auth_fallbacks: Family<Cluster, Count>,
    failovers: Family<Ordered, Counter>,
    migrations_started: Family<Cluster, Counter>,
    migrations_failed: Family<Cluster, Counter>,
    orchestration: Family<Changing, Count>,
    duration: Family<Changing, Seconds>,
    known: Arc<Mutex<HashMap<Cluster, Known>>>,
}

/// What the next pass must not count again, and what must be taken away with the cluster.
#[derive(Default)]
struct Known {
    phase: &'static str,
    failed: BTreeSet<String>,
    orchestrations: BTreeSet<&'static str>,
}

impl Clusters {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("cluster_phase", "1 for the phase a cluster is in", self.phase.clone());
        for (name, help, family) in [
            ("cluster_shards_wanted", "Shards that the spec asks for", &self.shards_wanted),
            (
                "cluster_shards_ready",
                "Shards that serve with every copy they should have",
                &self.shards_ready,
            ),
            ("cluster_nodes_wanted", "Nodes that the spec asks for", &self.nodes_wanted),
            (
                "cluster_nodes_in_sync",
                "Primaries, and replicas that have what their primary has",
                &self.nodes_in_sync,
            ),
            ("cluster_slots_served", "Slots whose owner answers", &self.slots_served),
            (
                "cluster_auth_fallbacks",
                "Servers that refused the operator's password and let it in as somebody else",
                &self.auth_fallbacks,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
        registry.register(
            "cluster_failovers_ordered",
            "Orders to take over that a replica obeyed, by kind",
            self.failovers.clone(),
        );
        for (name, help, family) in [
            ("cluster_slot_migrations_started", "Moves of slots that were begun", &self.migrations_started),
            ("cluster_slot_migrations_failed", "Moves of slots that failed", &self.migrations_failed),
        ] {
            registry.register(name, help, family.clone());
        }
        registry.register(
            "cluster_orchestration_running",
            "1 while a change goes through a cluster, by its name",
            self.orchestration.clone(),
        );
        registry.register(
            "cluster_orchestration_duration_seconds",
            "How long the last change took, by its name",
            self.duration.clone(),
        );
    }

    /// What a pass saw and did.
    pub fn set(&self, cluster: &Cluster, numbers: &Numbers) {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(cluster.clone()).or_default();
        self.change_phase(cluster, known, numbers.phase);
        for (family, number) in [
            (&self.shards_wanted, numbers.shards_wanted),
            (&self.shards_ready, numbers.shards_ready),
            (&self.nodes_wanted, numbers.nodes_wanted),
            (&self.nodes_in_sync, numbers.nodes_in_sync),
            (&self.slots_served, numbers.slots_served),
            (&self.auth_fallbacks, numbers.auth_fallbacks),
        ] {
            family.get_or_create(cluster).set(i64::from(number));
        }
        // A counter that is there from the beginning shows its first step, too.
        for kind in Failover::ALL {
            let ordered = numbers.failovers.iter().filter(|one| **one == kind).count();
            self.failovers.get_or_create(&cluster.ordered(kind)).inc_by(ordered as u64);
        }
        self.migrations_started.get_or_create(cluster).inc_by(u64::from(numbers.migrations_started));
        let news = numbers.migrations_failed.difference(&known.failed).count() as u64;
        let failed = news + u64::from(numbers.migrations_failed_now);
        self.migrations_failed.get_or_create(cluster).inc_by(failed);
        known.failed.extend(numbers.migrations_failed.iter().cloned());
        known.orchestrations.extend(numbers.orchestration);
        known.orchestrations.extend(numbers.ended.map(|(name, _)| name));
        for name in &known.orchestrations {
            let running = i64::from(numbers.orchestration == Some(*name));
            self.orchestration.get_or_create(&cluster.changing(name)).set(running);
        }
        if let Some((name, took)) = numbers.ended {
            self.duration.get_or_create(&cluster.changing(name)).set(took.as_secs_f64());
        }
    }

    /// A cluster that cannot be looked at: only its phase is known, and the rest stays as it was.
    pub fn set_phase(&self, cluster: &Cluster, phase: &'static str) {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(cluster.clone()).or_default();
        self.change_phase(cluster, known, phase);
    }

    fn change_phase(&self, cluster: &Cluster, known: &mut Known, phase: &'static str) {
        if known.phase != phase {
            self.phase.remove(&cluster.in_phase(known.phase));
            known.phase = phase;
        }
        self.phase.get_or_create(&cluster.in_phase(phase)).set(1);
    }

    /// A cluster is gone, and its series with it.
    pub fn forget(&self, cluster: &Cluster) {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = all.remove(cluster) else { return };
        self.phase.remove(&cluster.in_phase(known.phase));
        for family in [
            &self.shards_wanted,
            &self.shards_ready,
            &self.nodes_wanted,
            &self.nodes_in_sync,
            &self.slots_served,
            &self.auth_fallbacks,
        ] {
            family.remove(cluster);
        }
        for kind in Failover::ALL {
            self.failovers.remove(&cluster.ordered(kind));
        }
        self.migrations_started.remove(cluster);
        self.migrations_failed.remove(cluster);
        for name in known.orchestrations {
            self.orchestration.remove(&cluster.changing(name));
            self.duration.remove(&cluster.changing(name));
        }
    }
}

impl Cluster {
    fn in_phase(&self, phase: &'static str) -> InPhase {
        InPhase { namespace: self.namespace.clone(), name: self.name.clone(), phase }
    }

    fn ordered(&self, kind: Failover) -> Ordered {
        Ordered { namespace: self.namespace.clone(), name: self.name.clone(), kind: kind.name() }
    }

    fn changing(&self, orchestration: &'static str) -> Changing {
        Changing { namespace: self.namespace.clone(), name: self.name.clone(), orchestration }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn cluster(name: &str) -> Cluster {
        Cluster { namespace: "team".to_owned(), name: name.to_owned() }
    }

    /// Every series of these metrics, sorted, without the prefix and the labels of the cluster.
    fn series(registry: &Registry, name: &str) -> Vec<String> {
        let mut text = String::new();
        encode(&mut text, registry).expect("should be text");
        let of = format!("namespace=\"team\",name=\"{name}\"");
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| !line.starts_with('#') && line.contains(&of))
            .map(|line| line.replace(&of, ""))
            .collect();
        lines.sort();
        lines
    }

    fn registered() -> (Clusters, Registry) {
        let (clusters, mut registry) = (Clusters::default(), Registry::default());
        clusters.register(&mut registry);
        (clusters, registry)
    }

    fn failed(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_pass_sets_what_is_and_counts_what_was_done() {
        let (clusters, registry) = registered();
        let numbers = Numbers {
            phase: "Updating",
            shards_wanted: 3,
            shards_ready: 2,
            nodes_wanted: 6,
            nodes_in_sync: 5,
            slots_served: 16384,
            auth_fallbacks: 1,
            failovers: vec![Failover::Planned, Failover::Forced, Failover::Planned],
            migrations_started: 2,
            migrations_failed: failed(&["one"]),
            migrations_failed_now: 3,
            orchestration: Some("Scale"),
            ended: Some(("RollingUpdate", Duration::from_millis(2500))),
        };
        clusters.set(&cluster("shop"), &numbers);
        assert_eq!(
            series(&registry, "shop"),
            [
                "cluster_auth_fallbacks{} 1",
                "cluster_failovers_ordered_total{,kind=\"forced\"} 1",
                "cluster_failovers_ordered_total{,kind=\"planned\"} 2",
                "cluster_failovers_ordered_total{,kind=\"takeover\"} 0",
                "cluster_nodes_in_sync{} 5",
                "cluster_nodes_wanted{} 6",
                "cluster_orchestration_duration_seconds{,orchestration=\"RollingUpdate\"} 2.5",
                "cluster_orchestration_running{,orchestration=\"RollingUpdate\"} 0",
                "cluster_orchestration_running{,orchestration=\"Scale\"} 1",
                "cluster_phase{,phase=\"Updating\"} 1",
                "cluster_shards_ready{} 2",
                "cluster_shards_wanted{} 3",
                "cluster_slot_migrations_failed_total{} 4",
                "cluster_slot_migrations_started_total{} 2",
                "cluster_slots_served{} 16384",
            ]
        );
    }

    #[test]
    fn the_next_pass_replaces_what_is_and_adds_to_what_was_done() {
        let (clusters, registry) = registered();
        let first = Numbers {
            phase: "Updating",
            failovers: vec![Failover::Takeover],
            migrations_started: 1,
            migrations_failed: failed(&["one"]),
            orchestration: Some("Scale"),
            ..Numbers::default()
        };
        clusters.set(&cluster("shop"), &first);
        let second = Numbers {
            phase: "Ready",
            shards_ready: 3,
            failovers: vec![Failover::Takeover],
            // A server remembers what failed for a while: that is not another failure.
            migrations_failed: failed(&["one", "two"]),
            ..Numbers::default()
        };
        clusters.set(&cluster("shop"), &second);
        let lines = series(&registry, "shop");
        for line in [
            "cluster_failovers_ordered_total{,kind=\"takeover\"} 2",
            "cluster_orchestration_running{,orchestration=\"Scale\"} 0",
            "cluster_phase{,phase=\"Ready\"} 1",
            "cluster_shards_ready{} 3",
            "cluster_slot_migrations_failed_total{} 2",
            "cluster_slot_migrations_started_total{} 1",
        ] {
            assert!(lines.contains(&line.to_owned()), "{line} is not among {lines:#?}");
        }
        let phases = lines.iter().filter(|line| line.starts_with("cluster_phase")).count();
        assert_eq!(phases, 1, "a cluster is in one phase: {lines:#?}");
    }

    #[test]
    fn an_invalid_spec_changes_the_phase_and_nothing_else() {
        let (clusters, registry) = registered();
        clusters
            .set(&cluster("shop"), &Numbers { phase: "Ready", slots_served: 16384, ..Numbers::default() });
        clusters.set_phase(&cluster("shop"), "Error");
        let lines = series(&registry, "shop");
        assert!(lines.contains(&"cluster_phase{,phase=\"Error\"} 1".to_owned()), "{lines:#?}");
        assert!(lines.contains(&"cluster_slots_served{} 16384".to_owned()), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("Ready")), "{lines:#?}");
    }

    #[test]
    fn the_series_of_a_cluster_go_with_it_and_those_of_others_stay() {
        let (clusters, registry) = registered();
        let numbers = Numbers {
            phase: "Ready",
            failovers: vec![Failover::Forced],
            orchestration: Some("Scale"),
            ended: Some(("RollingUpdate", Duration::from_secs(1))),
            ..Numbers::default()
        };
        clusters.set(&cluster("shop"), &numbers);
        clusters.set(&cluster("other"), &numbers);
        let of_other = series(&registry, "other");
        clusters.forget(&cluster("shop"));
        clusters.forget(&cluster("never-seen"));
        assert_eq!(series(&registry, "shop"), Vec::<String>::new());
        assert_eq!(series(&registry, "other"), of_other);
        // A cluster of the same name begins at nothing.
        clusters.set(&cluster("shop"), &Numbers { phase: "Creating", ..Numbers::default() });
        let lines = series(&registry, "shop");
        assert!(
            lines.contains(&"cluster_failovers_ordered_total{,kind=\"forced\"} 0".to_owned()),
            "{lines:#?}"
        );
    }
}
