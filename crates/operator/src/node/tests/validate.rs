//! What cannot be built is said with its field and without any value: a table of refused specs.

use api::ValkeyNode;
use api::node::WorkloadType;
use pretty_assertions::assert_eq;

use super::super::validate::{Storage, needs_restart, validate};
use super::world::{SECRET, World, node, owned_node};
use crate::violation::Violation;

fn violations(node: &ValkeyNode) -> Vec<String> {
    validate(node).expect_err("should be refused").iter().map(Violation::to_string).collect()
}

fn named(name: &str) -> ValkeyNode {
    let mut node = node("{}");
    node.metadata.name = Some(name.to_owned());
    node
}

#[test]
fn every_problem_is_named_by_its_field() {
    let size = "spec.persistence.size: is not a positive quantity such as 10Gi";
    let owned = "is decided by the operator and cannot be set";
    for (spec, expected) in [
        ("persistence: {mode: enabled}", size.to_owned()),
        ("persistence: {size: 10 apples}", size.to_owned()),
        ("persistence: {size: '0'}", size.to_owned()),
        ("persistence: {size: -1Gi}", size.to_owned()),
        (
            "persistence: {mode: external}",
            "spec.persistence.existingClaim: is required with mode: external".to_owned(),
        ),
        ("config: {daemonize: 'yes'}", format!("spec.config[\"daemonize\"]: {owned}")),
        ("config: {supervised: auto}", format!("spec.config[\"supervised\"]: {owned}")),
        ("config: {DIR: /tmp}", format!("spec.config[\"DIR\"]: {owned}")),
        (
            "config: {hz: '1', Hz: '2'}",
            "spec.config: failed to accept the directive \"hz\": it is given twice, in different spelling"
                .to_owned(),
        ),
    ] {
        assert_eq!(violations(&node(spec)), [expected], "{spec}");
    }
    let included = violations(&node("config: {Include: /x}"));
    assert_eq!(included[0], format!("spec.config[\"Include\"]: {owned}"));
}

#[test]
fn a_name_must_fit_and_be_one_label() {
    assert_eq!(violations(&named(&"n".repeat(46))), ["metadata.name: has more than 45 characters"]);
    assert_eq!(
        violations(&named("a.b")),
        ["metadata.name: contains a dot, but the Service's name is a single DNS label"]
    );
    assert!(validate(&named(&"n".repeat(45))).is_ok());
    let mut unborn = node("{}");
    unborn.metadata.uid = None;
    assert_eq!(violations(&unborn), ["metadata: has no name, namespace or uid"]);
}

#[test]
fn all_problems_are_said_at_once() {
    let node =
        node("persistence: {mode: enabled}\nconfig: {dir: /tmp}\npodTemplate: {spec: {containers: 1}}");
    let said = violations(&node);
    let fields: Vec<&str> = said.iter().filter_map(|said| said.split(": ").next()).collect();
    assert_eq!(fields, ["spec.persistence.size", "spec.config[\"dir\"]", "spec.podTemplate.spec"]);
}

#[test]
fn a_violation_never_holds_a_value() {
    for spec in [
        format!("config: {{'bad name': {SECRET}}}"),
        format!("config: {{'bad\nname': {SECRET}}}"),
        format!("config: {{user: 'default on >{SECRET} \"'}}"),
        format!("config: {{requirepass: {SECRET}, Requirepass: {SECRET}}}"),
        format!("config: {{include: {SECRET}}}"),
        format!("podTemplate: {{spec: {{containers: {SECRET}}}}}"),
        format!("podTemplate: {{spec: {{hostNetwork: {SECRET}}}}}"),
        format!("podTemplate: {{spec: {{terminationGracePeriodSeconds: '{SECRET}'}}}}"),
    ] {
        let text = violations(&node(&spec)).join("; ");
        assert!(!text.contains(SECRET), "{text}");
    }
    // A number is a value too.
    let spec = "podTemplate: {spec: {containers: [{name: x, env: [{name: PASSWORD, value: 4711471147}]}]}}";
    let text = violations(&node(spec)).join("; ");
    assert!(text.starts_with("spec.podTemplate.spec: ") && text.contains("a string"), "{text}");
    assert!(!text.contains("4711471147"), "{text}");
}

#[test]
fn storage_is_what_was_meant() {
    for (spec, claim) in [
        ("{}", None),
        ("persistence: {}", None),
        ("persistence: {mode: disabled}", None),
        ("persistence: {size: 1Gi}", Some("valkey-alpha-data")),
        ("persistence: {mode: enabled, size: 1Gi}", Some("valkey-alpha-data")),
        ("persistence: {mode: external, existingClaim: theirs}", Some("theirs")),
    ] {
        let desired = World::empty(node(spec)).desired;
        assert_eq!(desired.claim_name().as_deref(), claim, "{spec}");
        assert_eq!(desired.storage == Storage::InPod, claim.is_none(), "{spec}");
    }
}

#[test]
fn a_node_without_a_parent_may_roll_and_one_with_a_parent_only_to_what_was_allowed() {
    assert!(World::empty(node("{}")).desired.roll_allowed);
    assert!(World::empty(node("workloadRevision: other")).desired.roll_allowed);
    let mut owned = World::empty(owned_node("workloadRevision: other"));
    assert!(!owned.desired.roll_allowed);
    owned.authorise();
    assert!(owned.desired.roll_allowed);
}

#[test]
fn an_overlay_cannot_take_a_pod_out_of_its_workload() {
    let spec = "podTemplate: {metadata: {labels: {app.kubernetes.io/instance: x, app.kubernetes.io/name: y, \
                valkey-pod-extra-selector: mine}, annotations: {valkey.io/cr: z, valkey.io/restart-config: r}}}";
    let desired = World::empty(owned_node(spec)).desired;
    let meta = desired.template.metadata.expect("should have metadata");
    let labels = meta.labels.expect("should have labels");
    assert!(desired.identity.selector().iter().all(|(key, value)| labels.get(key) == Some(value)));
    assert_eq!(labels["valkey-pod-extra-selector"], "mine");
    assert_eq!(labels["valkey.io/cluster"], "beta");
    assert!(!labels.contains_key("other"), "only labels of our own prefix are inherited");
    let annotations = meta.annotations.expect("should have annotations");
    assert_eq!(annotations["valkey.io/cr"], "beta");
    assert_eq!(annotations["valkey.io/restart-config"], desired.restart_config);
}

#[test]
fn the_image_is_the_one_that_runs() {
    let spec = "podTemplate: {spec: {containers: [{name: valkey, image: registry.test/other:1}]}}";
    assert_eq!(World::empty(node(spec)).desired.image, "registry.test/other:1");
}

#[test]
fn the_type_of_the_workload_defaults_to_a_stateful_set() {
    assert_eq!(World::empty(node("{}")).desired.workload_type, WorkloadType::StatefulSet);
}

#[test]
fn a_directive_waits_for_a_restart_if_any_supported_server_needs_one() {
    for (directive, expected) in
        [("databases", true), ("io-threads", true), ("user", true), ("maxmemory", false), ("save", false)]
    {
        assert_eq!(needs_restart(directive), expected, "{directive}");
    }
}
