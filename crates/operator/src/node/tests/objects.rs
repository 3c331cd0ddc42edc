//! Snapshots of everything that is built, and pinned revisions: a change here restarts pods when the operator is
//! upgraded, and must be meant.

use insta::{assert_snapshot, assert_yaml_snapshot};
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::super::build::Kind;
use super::world::{World, node, owned_node};

/// Everything a user or a parent can say about a pod.
pub(super) const FULL: &str = r#"
image: registry.test/valkey:9.1
imagePullSecrets: [{name: pull}]
workloadType: StatefulSet
updateStrategy: OnDelete
resources:
  requests: {cpu: 100m, memory: 256Mi}
  limits: {memory: 512Mi}
nodeSelector: {disk: fast}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {valkey.io/cluster: beta}}
tolerations: [{key: dedicated, operator: Exists}]
topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
priorityClassName: important
terminationGracePeriodSeconds: 120
persistence: {mode: enabled, size: 10Gi, storageClassName: fast, reclaimPolicy: Delete}
config: {maxmemory: 100mb, databases: "4", save: ""}
podTemplate:
  metadata:
    labels: {team: storage, app.kubernetes.io/instance: stolen}
    annotations: {note: hello, valkey.io/cr: stolen}
  spec:
    initContainers: [{name: prepare, image: registry.test/agent:1}]
    containers:
      - name: valkey
        env: [{name: A, value: "1"}]
        volumeMounts: [{name: run, mountPath: /run/valkey}]
        readinessProbe: {httpGet: {path: /readyz, port: 18369}, initialDelaySeconds: 0}
      - {name: exporter, image: registry.test/exporter:1}
    volumes: [{name: run, emptyDir: {medium: Memory}}]
"#;

fn bodies(world: &World) -> Vec<Value> {
    world.wanted().into_iter().map(|wanted| wanted.body).collect()
}

#[test]
fn objects_of_a_stateful_set_without_a_volume() {
    assert_yaml_snapshot!(bodies(&World::empty(node("{}"))));
}

#[test]
fn objects_of_a_deployment_with_a_kept_volume() {
    let spec = "workloadType: Deployment\npersistence: {size: 1Gi}";
    assert_yaml_snapshot!(bodies(&World::empty(node(spec))));
}

#[test]
fn objects_of_a_pod_with_a_volume_that_goes_with_it() {
    let spec = "workloadType: Pod\npersistence: {mode: enabled, size: 1Gi, reclaimPolicy: Delete}";
    assert_yaml_snapshot!(bodies(&World::empty(node(spec))));
}

#[test]
fn objects_of_a_stateful_set_with_the_volume_of_somebody_else() {
    let spec = "persistence: {mode: external, existingClaim: theirs}";
    assert_yaml_snapshot!(bodies(&World::empty(node(spec))));
}

#[test]
fn objects_of_a_full_spec_with_a_parent() {
    assert_yaml_snapshot!(bodies(&World::empty(owned_node(FULL))));
}

#[test]
fn the_file_holds_our_directives_and_the_users_in_one_word_each() {
    let spec = r#"config: {Maxmemory: 100mb, save: "900 1 300 10", requirepass: "a b\nport 1", protected-mode: "yes"}"#;
    let world = World::empty(node(spec));
    let file = world.wanted_of(Kind::ConfigMap).body["data"]["valkey.conf"].clone();
    assert_snapshot!(file.as_str().expect("should be text"), @r#"
    dir /data
    maxmemory 100mb
    protected-mode yes
    requirepass "a b\x0aport 1"
    save "900 1 300 10"
    "#);
}

#[test]
fn revisions_are_the_same_in_every_build_of_the_operator() {
    for (node, pinned) in [
        (node("image: registry.test/valkey:9.1"), "a506481456"),
        (node("image: registry.test/valkey:9.1\npersistence: {size: 1Gi}"), "e94a5fe72d"),
        (node("image: registry.test/valkey:9.1\nconfig: {databases: '4', hz: '20'}"), "9eb91a7f33"),
        (owned_node(FULL), "2691877d89"),
    ] {
        assert_eq!(World::empty(node).desired.revision, pinned, "every pod would restart with the upgrade");
    }
}

#[test]
fn the_revision_moves_with_what_makes_another_pod_and_with_nothing_else() {
    let revision = |spec: &str| World::empty(node(spec)).desired.revision;
    let plain = revision("{}");
    for same in [
        "workloadType: Deployment",
        "workloadType: Pod",
        "updateStrategy: OnDelete",
        "workloadRevision: abc",
        "config: {maxmemory: 100mb}",
        "access: {user: u, passwordSecretRef: {name: s, key: k}}",
        "persistence: {mode: disabled}",
    ] {
        assert_eq!(revision(same), plain, "{same}");
    }
    for other in [
        "image: registry.test/valkey:8.1",
        "resources: {limits: {memory: 1Gi}}",
        "nodeSelector: {a: b}",
        "config: {databases: '4'}",
        "persistence: {size: 1Gi}",
        "terminationGracePeriodSeconds: 5",
        "podTemplate: {metadata: {labels: {a: b}}}",
        "podTemplate: {spec: {hostNetwork: true}}",
        "priorityClassName: p",
    ] {
        assert_ne!(revision(other), plain, "{other}");
    }
}

#[test]
fn a_volume_may_grow_and_be_given_back_without_another_pod() {
    let revision = |spec: &str| World::empty(node(spec)).desired.revision;
    assert_eq!(
        revision("persistence: {size: 1Gi}"),
        revision("persistence: {mode: enabled, size: 2Gi, reclaimPolicy: Delete}")
    );
}
