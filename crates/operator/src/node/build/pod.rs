//! The pod template: our pod first, then the owner's overlay, then the revision of the result.

use std::collections::BTreeMap;

use api::{ValkeyNodeSpec, keys, names};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource,
    PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, SeccompProfile,
    SecurityContext, TCPSocketAction, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Identity;
use super::config_map::FILE;

/// User and group of the stock image.
const USER: i64 = 999;
const CONFIG_DIRECTORY: &str = "/etc/valkey";
const DATA_DIRECTORY: &str = "/data";
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// How long a server may take to open its port; a large data set is loaded after that.
const STARTUP_SECONDS: i32 = 600;

/// The template without the owner's overlay and without a revision.
pub(crate) fn template(
    identity: &Identity,
    spec: &ValkeyNodeSpec,
    claim: Option<&str>,
    restart_config: &str,
) -> PodTemplateSpec {
    let overlay =
        spec.pod_template.as_ref().and_then(|template| template.metadata.clone()).unwrap_or_default();
    let mut labels =
        BTreeMap::from([(keys::POD_EXTRA_SELECTOR.to_owned(), format!("{}-node-pod-0", identity.name))]);
    labels.extend(overlay.labels);
    // Last, so that nothing can take a pod out of its own workload's selector.
    labels.extend(identity.labels());
    let mut annotations = overlay.annotations;
    annotations.extend(identity.annotations());
    annotations.insert(keys::RESTART_CONFIG.to_owned(), restart_config.to_owned());
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(pod_spec(identity, spec, claim)),
    }
}

fn pod_spec(identity: &Identity, spec: &ValkeyNodeSpec, claim: Option<&str>) -> PodSpec {
    PodSpec {
        containers: vec![server(spec)],
        volumes: Some(volumes(identity, claim)),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            // Walking through a large data set at every start would delay it for minutes.
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(
            spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS),
        ),
        image_pull_secrets: some_unless_empty(spec.image_pull_secrets.clone()),
        node_selector: Some(spec.node_selector.clone()).filter(|selector| !selector.is_empty()),
        affinity: spec.affinity.clone(),
        tolerations: some_unless_empty(spec.tolerations.clone()),
        topology_spread_constraints: some_unless_empty(spec.topology_spread_constraints.clone()),
        priority_class_name: spec.priority_class_name.clone(),
        ..PodSpec::default()
    }
}

fn server(spec: &ValkeyNodeSpec) -> Container {
    Container {
        name: names::SERVER_CONTAINER.to_owned(),
        image: Some(spec.image.clone()),
        command: Some(vec!["valkey-server".to_owned(), format!("{CONFIG_DIRECTORY}/{FILE}")]),
        ports: Some(vec![ContainerPort {
            name: Some(names::SERVER_PORT_NAME.to_owned()),
            container_port: i32::from(names::SERVER_PORT),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        resources: spec.resources.clone(),
        startup_probe: Some(Probe {
            period_seconds: Some(1),
            failure_threshold: Some(STARTUP_SECONDS),
            ..port_open()
        }),
        readiness_probe: Some(Probe {
            initial_delay_seconds: Some(5),
            period_seconds: Some(5),
            ..port_open()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        // The server's last words end up in the pod's status, and from there in a condition.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(vec![
            mount("config", CONFIG_DIRECTORY, true),
            mount("data", DATA_DIRECTORY, false),
            mount("tmp", "/tmp", false),
        ]),
        ..Container::default()
    }
}

fn port_open() -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::String(names::SERVER_PORT_NAME.to_owned()),
            ..TCPSocketAction::default()
        }),
        ..Probe::default()
    }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn volumes(identity: &Identity, claim: Option<&str>) -> Vec<Volume> {
    let empty = || Some(EmptyDirVolumeSource::default());
    vec![
        Volume {
            name: "config".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: identity.workload_name(),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: "data".to_owned(),
            persistent_volume_claim: claim.map(|name| PersistentVolumeClaimVolumeSource {
                claim_name: name.to_owned(),
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            empty_dir: if claim.is_none() { empty() } else { None },
            ..Volume::default()
        },
        Volume { name: "tmp".to_owned(), empty_dir: empty(), ..Volume::default() },
    ]
}

fn some_unless_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    if list.is_empty() { None } else { Some(list) }
}
