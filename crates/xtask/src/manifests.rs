//! The manifests that install the operator: namespace, permissions (each with its reason), Deployment, metrics Service.

use serde_json::{Value, json};
use valkey_operator::rbac::{CLUSTER_WIDE, OWN_NAMESPACE, Rule, WATCHED};

use crate::output::{Generated, YAML_HEADER};
use crate::yaml;

const NAMESPACE: &str = "valkey-operator-system";
const NAME: &str = "valkey-operator";
const OUTSIDE: &str = "valkey-operator-outside";
const IMAGE: &str = "valkey-operator:dev";

pub(crate) fn files() -> Vec<Generated> {
    let file = |name: &str, content: String| Generated {
        path: format!("deploy/operator/{name}.yaml"),
        content: format!("{YAML_HEADER}{content}"),
    };
    let root = Generated {
        path: "deploy/root/valkey-root-ca.yaml".to_owned(),
        content: format!("{YAML_HEADER}{}", yaml::print(&root())),
    };
    vec![
        root,
        file("00-namespace", yaml::print(&namespace())),
        file("10-rbac", rbac()),
        file(
            "20-deployment",
            documents(&[deployment(), disruption_budget(), metrics_service(), agents_service()]),
        ),
    ]
}

/// The root of all certificates. The spec says nothing: what a user says there stays when the operator is installed again.
fn root() -> Value {
    json!({
        "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCA",
        "metadata": {"name": api::names::ROOT_CA, "labels": {"app.kubernetes.io/name": NAME}},
        "spec": {},
    })
}

fn documents(values: &[Value]) -> String {
    values.iter().map(yaml::print).collect::<Vec<_>>().join("---\n")
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "operator"})
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": NAME,
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    })
}

fn rbac() -> String {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels()},
        "automountServiceAccountToken": false,
    });
    let subject = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]);
    let bind = |kind: &str, role: &str, name: &str, metadata: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            "subjects": subject,
        })
    };
    let everywhere = json!({"name": NAME, "labels": labels()});
    let outside = json!({"name": OUTSIDE, "labels": labels()});
    let here = json!({"name": NAME, "namespace": NAMESPACE, "labels": labels()});
    [
        yaml::print(&account),
        role("ClusterRole", &everywhere, WATCHED),
        yaml::print(&bind("ClusterRoleBinding", "ClusterRole", NAME, everywhere)),
        // Apart, so that an operator that works in some namespaces only keeps it.
        role("ClusterRole", &outside, CLUSTER_WIDE),
        yaml::print(&bind("ClusterRoleBinding", "ClusterRole", OUTSIDE, outside)),
        role("Role", &here, OWN_NAMESPACE),
        yaml::print(&bind("RoleBinding", "Role", NAME, here)),
    ]
    .join("---\n")
}

/// A role whose rules carry their reasons as comments.
fn role(kind: &str, metadata: &Value, rules: &[Rule]) -> String {
    let head = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata});
    let mut text = yaml::print(&head);
    text.push_str("rules:\n");
    for rule in rules {
        let mut fields = json!({"apiGroups": [rule.group], "resources": rule.resources, "verbs": rule.verbs});
        if !rule.names.is_empty() {
            fields["resourceNames"] = json!(rule.names);
        }
        let value = json!([fields]);
        text.push_str(&format!("# {}\n{}", rule.why, yaml::print(&value)));
    }
    text
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels()},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": true,
                    "terminationGracePeriodSeconds": 30,
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 100,
                        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels()}},
                    }]}},
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container()],
                },
            },
        },
    })
}

fn container() -> Value {
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    json!({
        "name": "operator",
        "image": IMAGE,
        "env": [
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            json!({"name": "AGENT_IMAGE", "value": IMAGE}),
        ],
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "agents", "containerPort": api::names::AGENTS_PORT}],
        "startupProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
    })
}

/// A drain must not take the leader and its stand-in at once.
fn disruption_budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels()},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels()}},
    })
}

/// For the agents in pods: only the replica that leads listens, and labels itself.
fn agents_service() -> Value {
    let mut selector = labels();
    selector[api::keys::LEADER] = json!("true");
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": api::names::AGENTS_SERVICE, "namespace": NAMESPACE, "labels": labels()},
        "spec": {
            "selector": selector,
            "ports": [{"name": "agents", "port": api::names::AGENTS_PORT, "targetPort": "agents"}],
        },
    })
}

fn metrics_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": format!("{NAME}-metrics"), "namespace": NAMESPACE, "labels": labels(),
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        },
        "spec": {"clusterIP": "None", "selector": labels(), "ports": [{"name": "http", "port": 8080, "targetPort": "http"}]},
    })
}
