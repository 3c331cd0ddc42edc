//! What a cluster lays over the pod of each of its nodes: the agent, the users file, the exporter, and what the user
//! wants laid over that.

use api::cluster::Exporter;
use api::names;
use serde_json::{Value, json};
use valkey::acl::SystemUser;

use super::super::agent_form::{AgentForm, OPERATOR_FLAG};
use super::super::paths::{
    AGENT_DIRECTORY, AGENT_SECRETS, BASE_DIRECTORY, MTLS_DIRECTORY, RUN_DIRECTORY, TLS_DIRECTORY,
    USERS_DIRECTORY,
};
use super::super::validate::{Data, Desired};
use crate::overlay::lay_over;

/// How long a server may need until it knows its cluster: as long as it takes. Killing it would not help.
const STARTUP_TRIES: i32 = 1_000_000;
/// How long one look at a starting server waits for it.
const STARTUP_WAIT_SECONDS: i32 = 10;
/// How often a running server is looked at from inside the pod.
const LOOK_EVERY_SECONDS: i32 = 10;

/// The overlay of a node's pod.
pub(super) fn overlay(desired: &Desired, node: &str, agent: &AgentForm) -> Value {
    let mut containers = vec![server(desired)];
    if let Some(exporter) = &desired.exporter {
        containers.push(exporter_container(desired, exporter));
    }
    let mut spec = json!({
        "initContainers": init_containers(agent),
        "containers": containers,
        "volumes": volumes(desired, node, agent),
    });
    if let Some(context) = &desired.spec.pod_security_context {
        spec["securityContext"] = serde_json::to_value(context).unwrap_or_default();
    }
    lay_over(&mut spec, &json!({"containers": desired.container_overlays}));
    let template = desired.spec.pod_template.as_ref().and_then(|template| template.spec.as_ref());
    if let Some(template) = template {
        lay_over(&mut spec, template);
    }
    spec
}

fn agent() -> String {
    format!("{AGENT_DIRECTORY}/valkey-agent")
}

fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

fn init_containers(agent: &AgentForm) -> Vec<Value> {
    let sidecar = agent.operator.as_deref().map(|operator| sidecar(&agent.image, operator));
    [init(&agent.image)].into_iter().chain(sidecar).collect()
}

/// Beside the server from before its start until after its end: Kubernetes stops init containers that go on last.
fn sidecar(image: &str, operator: &str) -> Value {
    json!({
        "name": names::SIDECAR_CONTAINER,
        "image": image,
        "restartPolicy": "Always",
        "command": ["/valkey-agent", "sidecar", OPERATOR_FLAG, operator],
        "env": [{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        "ports": [
            {"name": "agent-health", "containerPort": names::SIDECAR_HEALTH_PORT, "protocol": "TCP"},
            {"name": "agent", "containerPort": names::SIDECAR_PORT, "protocol": "TCP"},
        ],
        "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
        "securityContext": restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "run", "mountPath": RUN_DIRECTORY},
            {"name": "config", "mountPath": BASE_DIRECTORY, "readOnly": true},
            {"name": "agent-secrets", "mountPath": AGENT_SECRETS, "readOnly": true},
            {"name": "mtls", "mountPath": MTLS_DIRECTORY, "readOnly": true},
        ],
    })
}

fn init(image: &str) -> Value {
    json!({
        "name": names::INIT_CONTAINER,
        "image": image,
        "command": ["/valkey-agent", "init", "--to", AGENT_DIRECTORY],
        "securityContext": restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "agent", "mountPath": AGENT_DIRECTORY}],
    })
}

fn server(desired: &Desired) -> Value {
    let data = match desired.data {
        Data::Volatile => "volatile",
        Data::Kept => "kept",
    };
    // One probe that waits until the server serves, instead of one that looks every second: starting a process in a container
    // is dear, and a machine on which many pods start has nothing to spare. Not the readiness probe alone: what the kubelet
    // skips right after the start of a container, it does again only after a whole period.
    let startup = json!({
        "exec": {"command": [agent(), "ready", "--wait", format!("{STARTUP_WAIT_SECONDS}s")]},
        "timeoutSeconds": STARTUP_WAIT_SECONDS + 5,
        "periodSeconds": 1,
        "failureThreshold": STARTUP_TRIES,
    });
    let readiness = json!({
        "exec": {"command": [agent(), "ready"]},
        "timeoutSeconds": 3,
        "initialDelaySeconds": 0,
        "periodSeconds": LOOK_EVERY_SECONDS,
    });
    let mut mounts = vec![
        json!({"name": "agent", "mountPath": AGENT_DIRECTORY, "readOnly": true}),
        json!({"name": "run", "mountPath": RUN_DIRECTORY}),
        json!({"name": "users", "mountPath": USERS_DIRECTORY, "readOnly": true}),
        json!({"name": "agent-secrets", "mountPath": AGENT_SECRETS, "readOnly": true}),
    ];
    if desired.tls_secret.is_some() {
        mounts.push(json!({"name": "tls", "mountPath": TLS_DIRECTORY, "readOnly": true}));
    }
    json!({
        "name": names::SERVER_CONTAINER,
        "command": [agent(), "gate", "--data", data, "--", "valkey-server"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "bus", "containerPort": names::BUS_PORT, "protocol": "TCP"}],
        "startupProbe": startup,
        "readinessProbe": readiness,
        "volumeMounts": mounts,
    })
}

fn exporter_container(desired: &Desired, exporter: &Exporter) -> Value {
    let scheme = if desired.tls_secret.is_some() { "rediss" } else { "redis" };
    let mut env = vec![
        json!({"name": "REDIS_ADDR", "value": format!("{scheme}://localhost:{}", names::SERVER_PORT)}),
        json!({"name": "REDIS_USER", "value": SystemUser::Exporter.name()}),
        json!({"name": "REDIS_PASSWORD", "valueFrom": {"secretKeyRef": {
            "name": names::system_passwords_secret(&desired.identity.name),
            "key": SystemUser::Exporter.name(),
        }}}),
    ];
    let mut mounts = Vec::new();
    if desired.tls_secret.is_some() {
        // The certificate is for the names clients use, not for localhost.
        env.push(json!({"name": "REDIS_EXPORTER_SKIP_TLS_VERIFICATION", "value": "true"}));
        env.push(
            json!({"name": "REDIS_EXPORTER_TLS_CA_CERT_FILE", "value": format!("{TLS_DIRECTORY}/ca.crt")}),
        );
        mounts.push(json!({"name": "tls", "mountPath": TLS_DIRECTORY, "readOnly": true}));
    }
    let mut container = json!({
        "name": names::EXPORTER_CONTAINER,
        "image": desired.images.exporter,
        "env": env,
        "ports": [{
            "name": names::EXPORTER_PORT_NAME,
            "containerPort": names::EXPORTER_PORT,
            "protocol": "TCP",
        }],
        // Its last words are told like the server's.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": exporter.security_context.as_ref().map_or_else(restricted, |given| {
            serde_json::to_value(given).unwrap_or_default()
        }),
    });
    if !mounts.is_empty() {
        container["volumeMounts"] = json!(mounts);
    }
    if !exporter.args.is_empty() {
        container["args"] = json!(exporter.args);
    }
    if let Some(resources) = &exporter.resources {
        container["resources"] = serde_json::to_value(resources).unwrap_or_default();
    }
    container
}

fn volumes(desired: &Desired, node: &str, agent: &AgentForm) -> Vec<Value> {
    let cluster = &desired.identity.name;
    let file = |user: SystemUser| json!({"key": user.name(), "path": user.name()});
    let mut volumes = vec![
        json!({"name": "agent", "emptyDir": {}}),
        // In memory: the rendered configuration holds a password.
        json!({"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}),
        json!({"name": "users", "secret": {"secretName": names::acl_secret(cluster)}}),
        json!({"name": "agent-secrets", "secret": {
            "secretName": names::system_passwords_secret(cluster),
            "items": [file(SystemUser::Agent), file(SystemUser::Replication)],
        }}),
    ];
    if agent.operator.is_some() {
        // A server must start without it: then its agent is not heard, and all else works.
        let secret = json!({"secretName": names::agent_certificate(node), "optional": true});
        volumes.push(json!({"name": "mtls", "secret": secret}));
    }
    if let Some(secret) = &desired.tls_secret {
        volumes.push(json!({"name": "tls", "secret": {"secretName": secret}}));
    }
    volumes
}
