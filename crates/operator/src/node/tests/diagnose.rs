//! Pod states and what a user is told of them: one reason, one sentence that stays the same while the cause does, and
//! no secret.

use api::condition::NodeReason;
use k8s_openapi::api::core::v1::Pod;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::super::diagnose::{Diagnosis, diagnose};
use super::pods;
use super::world::{SECRET, World};

fn pod(status: &Value) -> Pod {
    let world = World::settled("{}");
    pods::with_status(world.observed.pod.as_deref().expect("should have a pod"), status)
}

fn of(status: &Value) -> Diagnosis {
    diagnose(&pod(status), false).expect("should have trouble")
}

fn words(status: &Value) -> String {
    of(status).message
}

#[test]
fn every_state_has_a_reason_and_a_sentence() {
    let backoff = "Back-off pulling image \"registry.test/valkey:9.1\"";
    let taint = "0/3 nodes are available: 3 Insufficient memory.";
    for (status, reason, failed, message) in [
        (pods::unscheduled(), NodeReason::PodStarting, false, "pod valkey-alpha-0 waits for a machine"),
        (pods::running_not_ready(), NodeReason::PodStarting, false, "pod valkey-alpha-0 is starting"),
        (
            pods::waiting("ContainerCreating", ""),
            NodeReason::PodStarting,
            false,
            "pod valkey-alpha-0 is starting",
        ),
        (
            pods::unschedulable(taint),
            NodeReason::Unschedulable,
            true,
            "pod valkey-alpha-0 cannot be scheduled: 0/3 nodes are available: 3 Insufficient memory.",
        ),
        (
            pods::waiting("ErrImagePull", "not found"),
            NodeReason::ImagePullFailed,
            true,
            "image \"registry.test/valkey:9.1\" cannot be pulled: not found",
        ),
        (
            pods::waiting("ImagePullBackOff", backoff),
            NodeReason::ImagePullFailed,
            true,
            "image \"registry.test/valkey:9.1\" cannot be pulled: the registry does not have it or does not answer",
        ),
        (
            pods::waiting("InvalidImageName", "couldn't parse image name"),
            NodeReason::ImagePullFailed,
            true,
            "image \"registry.test/valkey:9.1\" cannot be pulled: couldn't parse image name",
        ),
        (
            pods::waiting("CreateContainerConfigError", "secret \"s\" not found"),
            NodeReason::ContainerCreationFailed,
            true,
            "the server cannot be started (CreateContainerConfigError): secret \"s\" not found",
        ),
        (
            pods::crash_looping(3, 1, "Error", ""),
            NodeReason::CrashLooping,
            true,
            "the server ended with exit code 1",
        ),
        (
            pods::crash_looping(3, 137, "OOMKilled", ""),
            NodeReason::CrashLooping,
            true,
            "the server ran out of memory and was killed",
        ),
        (
            pods::ended(1, "cannot bind"),
            NodeReason::CrashLooping,
            true,
            "the server ended with exit code 1: cannot bind",
        ),
        (
            pods::evicted("The node was low on resource: memory."),
            NodeReason::PodFailed,
            true,
            "pod valkey-alpha-0 failed: The node was low on resource: memory.",
        ),
    ] {
        let expected = Diagnosis { reason, message: message.to_owned(), failed };
        assert_eq!(of(&status), expected, "{status}");
    }
}

#[test]
fn a_ready_pod_has_no_trouble_and_one_that_was_ready_has() {
    assert_eq!(diagnose(&pod(&pods::ready()), true), None);
    let lost = diagnose(&pod(&pods::running_not_ready()), true).expect("should have trouble");
    assert_eq!((lost.reason, lost.failed), (NodeReason::PodNotReady, true));
}

#[test]
fn a_pod_that_is_going_is_said_to_go_whatever_else_is_wrong() {
    for status in [pods::ready(), pods::evicted("x"), pods::crash_looping(1, 1, "Error", "x")] {
        let mut pod = pod(&status);
        pods::terminating(&mut pod);
        let going = diagnose(&pod, true).expect("should have trouble");
        assert_eq!((going.reason, going.failed), (NodeReason::PodTerminating, false));
    }
}

#[test]
fn another_container_is_called_by_its_name() {
    let mut status = pods::crash_looping(1, 2, "Error", "no such file");
    status["containerStatuses"][0]["name"] = json!("exporter");
    assert_eq!(words(&status), "container exporter ended with exit code 2: no such file");
    let mut status = pods::running_not_ready();
    status["initContainerStatuses"] =
        json!([pods::container(&json!({"waiting": {"reason": "CrashLoopBackOff"}}), &json!({}), 4)]);
    status["initContainerStatuses"][0]["name"] = json!("prepare");
    assert_eq!(words(&status), "container prepare ends again and again");
}

#[test]
fn restarts_and_pauses_do_not_change_the_sentence() {
    let line = |pid: u32, second: u32| {
        format!("{pid}:M 15 Nov 2026 20:30:{second:02}.123 # Bad file format reading the append only file\n")
    };
    let first = words(&pods::crash_looping(1, 1, "Error", &line(1, 7)));
    assert_eq!(first, "the server ended with exit code 1: Bad file format reading the append only file");
    assert_eq!(words(&pods::crash_looping(5, 1, "Error", &line(22, 48))), first);
    assert_eq!(words(&pods::ended(1, &line(1, 9))), first);
}

#[test]
fn trying_and_pausing_to_pull_are_told_in_the_same_words() {
    let cause = "failed to pull and unpack image \"registry.test/valkey:9.1\": failed to resolve reference \
                 \"registry.test/valkey:9.1\": registry.test/valkey:9.1: not found";
    let trying = words(&pods::waiting("ErrImagePull", cause));
    let pausing = words(&pods::waiting(
        "ImagePullBackOff",
        &format!("Back-off pulling image \"registry.test/valkey:9.1\": ErrImagePull: {cause}"),
    ));
    assert_eq!(trying, pausing);
    assert!(trying.ends_with("not found"), "{trying}");
}

#[test]
fn last_words_show_no_password() {
    for text in [
        format!(
            "*** FATAL CONFIG FILE ERROR ***\nat line 3\n>>> 'requirepass \"{SECRET} x{SECRET}\"'\nwrong number"
        ),
        format!(">>> 'masterauth {SECRET}'"),
        format!(">>> 'primaryauth {SECRET}'"),
        format!(">>> 'REQUIREPASS {SECRET}'"),
        format!(">>> 'user default on >{SECRET} ~* +@all'"),
        format!("1:C 15 Nov 2026 20:30:54.123 # Error in rule '>{SECRET}' of user default"),
        format!("tls-key-file-pass {SECRET}"),
    ] {
        let told = words(&pods::crash_looping(1, 1, "Error", &text));
        assert!(!told.contains(SECRET), "{told}");
        assert!(told.contains("[redacted]"), "{told}");
    }
}

#[test]
fn last_words_keep_what_explains_the_end() {
    let text = "\n*** FATAL CONFIG FILE ERROR (Version 9.1.0) ***\nReading the configuration file, at line 2\n\
                >>> 'hz many'\nargument couldn't be parsed into an integer\n";
    assert_eq!(
        words(&pods::crash_looping(1, 1, "Error", text)),
        "the server ended with exit code 1: *** FATAL CONFIG FILE ERROR (Version 9.1.0) *** | Reading the \
         configuration file, at line 2 | >>> 'hz many' | argument couldn't be parsed into an integer"
    );
}

#[test]
fn long_last_words_keep_their_end() {
    let told = words(&pods::crash_looping(1, 1, "Error", &format!("{}the cause", "ü".repeat(4000))));
    assert!(told.ends_with("the cause"));
    assert!(told.chars().count() < 500, "{}", told.chars().count());
}
