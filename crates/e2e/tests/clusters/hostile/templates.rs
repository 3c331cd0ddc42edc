//! Pods that the API server refuses as soon as a node asks for them: no pod is taken away.

use serde_json::{Value, json};

use super::row::{Reported, held_back};
use super::with;

/// For a cluster without replicas whose data is on volumes: it may be restarted, and so it is tried.
pub(super) fn rows() -> Vec<Reported> {
    let of = |what, change: Value, says| held_back(what, change, "ApplyRefused", says);
    let scheduling = |scheduling: Value| json!({"scheduling": scheduling});
    let server = |fields: Value| json!({"containers": [with(json!({"name": "valkey"}), &fields)]});
    vec![
        of(
            "more asked for than allowed",
            json!({"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}),
            &["kept-0-0", "resources.requests", "memory limit"],
        ),
        of(
            "a toleration nobody knows",
            scheduling(json!({"tolerations": [{"key": "a", "operator": "Maybe"}]})),
            &["tolerations[0].operator", "Maybe"],
        ),
        of(
            "a constraint without a skew",
            scheduling(
                json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}),
            ),
            &["topologySpreadConstraints[0].maxSkew"],
        ),
        of(
            "a selector that is no label",
            scheduling(json!({"nodeSelector": {"a b": "c"}})),
            &["nodeSelector"],
        ),
        of(
            "a volume that is not there",
            server(json!({"volumeMounts": [{"name": "nothing", "mountPath": "/x"}]})),
            &["volumeMounts", "nothing"],
        ),
        of(
            "a pull nobody knows",
            server(json!({"imagePullPolicy": "Sometimes"})),
            &["imagePullPolicy", "Sometimes"],
        ),
        of("a variable without a name", server(json!({"env": [{"name": ""}]})), &["env"]),
        of(
            "all rights and no way to more",
            server(json!({"securityContext": {"privileged": true}})),
            &["securityContext", "privileged"],
        ),
        of(
            "a label that is none",
            json!({"podTemplate": {"metadata": {"labels": {"a b": "c"}}}}),
            &["labels", "a b"],
        ),
        of("a group below all groups", json!({"podSecurityContext": {"fsGroup": -1}}), &["fsGroup"]),
        of(
            "an exporter that asks for more than it is allowed",
            json!({"exporter": {"enabled": true, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}}),
            &["resources.requests", "cpu limit"],
        ),
    ]
}
