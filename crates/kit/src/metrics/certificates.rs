//! How long certificates last. There is a series per root and per bundle, and one per cluster for all its certificates together:
//! the one that ends first.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Controller;

/// Whose certificates.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Whose {
    kind: &'static str,
    namespace: String,
    name: String,
}

/// An object that was looked at: its kind, namespace and name.
type Object = (&'static str, String, String);

#[derive(Debug)]
struct Seen {
    whose: Whose,
    ends: Option<Timestamp>,
    phase: Option<&'static str>,
}

/// The metrics of certificates.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    seen: Arc<Mutex<BTreeMap<Object, Seen>>>,
    rotations: Family<Controller, Counter>,
    failures: Family<Controller, Counter>,
}

impl Certificates {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "certificate_rotations",
            "Roots, authorities and certificates that were replaced, by kind",
            self.rotations.clone(),
        );
        registry.register(
            "certificate_failures",
            "Times that something became wrong with a root, an authority or a certificate, by kind",
            self.failures.clone(),
        );
        registry.register_collector(Box::new(DaysLeft(self.seen.clone())));
    }

    /// What was seen of an object that has a series of its own.
    pub fn seen(
        &self,
        kind: &'static str,
        (namespace, name): (&str, &str),
        phase: Option<&'static str>,
        ends: Option<Timestamp>,
    ) {
        self.seen_of_cluster(kind, (namespace, name), name, phase, ends);
    }

    /// What was seen of an object that shares the series of its cluster.
    pub fn seen_of_cluster(
        &self,
        kind: &'static str,
        (namespace, name): (&str, &str),
        cluster: &str,
        phase: Option<&'static str>,
        ends: Option<Timestamp>,
    ) {
        let whose = Whose { kind, namespace: namespace.to_owned(), name: cluster.to_owned() };
        let object = (kind, namespace.to_owned(), name.to_owned());
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.insert(object, Seen { whose, ends, phase }).and_then(|seen| seen.phase);
        // Counted when it becomes wrong, not for as long as it is.
        let failures = self.failures.get_or_create(&Controller { kind });
        if phase == Some("Error") && before != phase {
            failures.inc();
        }
    }

    /// Something was replaced.
    pub fn rotated(&self, kind: &'static str) {
        self.rotations.get_or_create(&Controller { kind }).inc();
    }

    /// An object is gone.
    pub fn forget(&self, kind: &'static str, (namespace, name): (&str, &str)) {
        let object = (kind, namespace.to_owned(), name.to_owned());
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&object);
    }
}

/// Time passes between two looks: the days are counted when somebody asks.
#[derive(Debug)]
struct DaysLeft(Arc<Mutex<BTreeMap<Object, Seen>>>);

impl Collector for DaysLeft {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut first: BTreeMap<Whose, Timestamp> = BTreeMap::new();
        for seen in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let Some(ends) = seen.ends else { continue };
            let known = first.entry(seen.whose.clone()).or_insert(ends);
            *known = ends.min(*known);
        }
        let now = Timestamp::now();
        let help = "Days until a root, an authority or the first certificate of a cluster is over";
        let mut family = encoder.encode_descriptor("certificate_days_left", help, None, MetricType::Gauge)?;
        for (whose, ends) in first {
            let days = ends.duration_since(now).as_secs_f64() / 86_400.0;
            ConstGauge::new(days).encode(family.encode_family(&whose)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use crate::metrics::Metrics;

    fn printed(registry: &prometheus_client::registry::Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).expect("should be printed");
        text
    }

    #[test]
    fn a_cluster_has_one_series_and_the_first_end_counts() {
        let (metrics, registry) = Metrics::new();
        let told = &metrics.certificates;
        let in_days = |days: i64| Some(jiff::Timestamp::now() + SignedDuration::from_hours(24 * days + 1));
        for (binding, days) in [("cache-0-0", 30), ("cache-0-1", 7)] {
            told.seen_of_cluster("B", ("team", binding), "cache", Some("Applied"), in_days(days));
        }
        told.seen("CA", ("", "root"), Some("Error"), in_days(365));
        told.seen("CA", ("", "root"), Some("Error"), in_days(365));
        told.rotated("CA");
        let text = printed(&registry);
        let days = r#"valkey_operator_certificate_days_left{kind="B",namespace="team",name="cache"} 7.0"#;
        assert!(text.contains(days), "{text}");
        assert_eq!(text.matches("certificate_days_left{").count(), 2, "{text}");
        assert!(text.contains(r#"certificate_failures_total{kind="CA"} 1"#), "{text}");
        assert!(text.contains(r#"certificate_failures_total{kind="B"} 0"#), "{text}");
        assert!(text.contains(r#"certificate_rotations_total{kind="CA"} 1"#), "{text}");
        told.forget("B", ("team", "cache-0-1"));
        assert!(printed(&registry).contains(r#"name="cache"} 30.0"#));
        told.forget("B", ("team", "cache-0-0"));
        assert!(!printed(&registry).contains(r#"name="cache""#));
    }
}
