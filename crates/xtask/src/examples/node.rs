//! Examples of the kind `ValkeyNode`.

use api::ValkeyNodeSpec;
use api::node::{Persistence, PersistenceMode, ReclaimPolicy, WorkloadType};
use serde_json::{Value, json};

use super::{IMAGE, dedicated_machines, example, requests_and_memory_limit, texts};
use crate::output::Generated;

pub(super) fn files() -> Vec<Generated> {
    vec![
        example(
            "valkeynode-minimal",
            "The smallest ValkeyNode: one server, data in the pod.",
            &[manifest("minimal", &spec())],
        ),
        example(
            "valkeynode-full",
            "A ValkeyNode with most of what it can be told.",
            &[manifest("full", &full())],
        ),
        example("valkeynode-demo", "One node of each workload type, and one with a volume.", &demo()),
    ]
}

fn manifest(name: &str, spec: &ValkeyNodeSpec) -> Value {
    super::manifest("ValkeyNode", name, spec)
}

fn spec() -> ValkeyNodeSpec {
    ValkeyNodeSpec { image: IMAGE.to_owned(), ..ValkeyNodeSpec::default() }
}

fn volume(size: &str) -> Persistence {
    Persistence {
        mode: Some(PersistenceMode::Enabled),
        size: Some(size.to_owned()),
        ..Persistence::default()
    }
}

fn full() -> ValkeyNodeSpec {
    ValkeyNodeSpec {
        resources: Some(requests_and_memory_limit("100m", "256Mi")),
        node_selector: texts(&[("kubernetes.io/os", "linux")]),
        tolerations: vec![dedicated_machines()],
        persistence: Some(Persistence { reclaim_policy: Some(ReclaimPolicy::Retain), ..volume("1Gi") }),
        config: texts(&[
            ("maxmemory", "192mb"),
            ("maxmemory-policy", "allkeys-lru"),
            ("appendonly", "yes"),
            ("save", "900 1 300 10"),
        ]),
        termination_grace_period_seconds: Some(60),
        pod_template: serde_json::from_value(json!({
            "metadata": {"annotations": {"example.com/team": "platform"}},
            "spec": {"containers": [{"name": "valkey", "env": [{"name": "TZ", "value": "UTC"}]}]},
        }))
        .ok(),
        ..spec()
    }
}

fn demo() -> Vec<Value> {
    let of_type =
        |name: &str, workload_type: WorkloadType| manifest(name, &ValkeyNodeSpec { workload_type, ..spec() });
    let with_volume = ValkeyNodeSpec {
        persistence: Some(volume("256Mi")),
        config: texts(&[("appendonly", "yes")]),
        ..spec()
    };
    vec![
        of_type("demo-statefulset", WorkloadType::StatefulSet),
        of_type("demo-deployment", WorkloadType::Deployment),
        of_type("demo-pod", WorkloadType::Pod),
        manifest("demo-volume", &with_volume),
    ]
}
