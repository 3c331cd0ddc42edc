//! Why a pod is not ready, in one reason and one sentence that stays the same while the cause does: a message that
//! counts restarts or back-off seconds would be written again and again.

use api::condition::NodeReason;
use api::names;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use kube::Resource as _;

/// Longest excerpt of a server's last words.
const LAST_WORDS: usize = 400;

/// What is the matter with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagnosis {
    pub(super) reason: NodeReason,
    pub(super) message: String,
    /// It will not mend itself by waiting a little.
    pub(super) failed: bool,
}

fn waiting(reason: NodeReason, message: impl Into<String>) -> Diagnosis {
    Diagnosis { reason, message: message.into(), failed: false }
}

fn failed(reason: NodeReason, message: impl Into<String>) -> Diagnosis {
    Diagnosis { reason, message: message.into(), failed: true }
}

/// `None` for a pod that Kubernetes holds for ready.
pub(super) fn diagnose(pod: &Pod, was_ready: bool) -> Option<Diagnosis> {
    let name = pod.meta().name.as_deref().unwrap_or_default();
    if pod.meta().deletion_timestamp.is_some() {
        return Some(waiting(NodeReason::PodTerminating, format!("pod {name} is being deleted")));
    }
    let Some(status) = &pod.status else {
        return Some(waiting(NodeReason::PodStarting, format!("pod {name} was just created")));
    };
    if status.phase.as_deref() == Some("Failed") {
        let why = status.message.as_deref().or(status.reason.as_deref()).unwrap_or("no reason given");
        return Some(failed(NodeReason::PodFailed, format!("pod {name} failed: {why}")));
    }
    if let Some(message) = unschedulable(status) {
        return Some(failed(NodeReason::Unschedulable, format!("pod {name} cannot be scheduled: {message}")));
    }
    if let Some(diagnosis) = containers(status).find_map(container_trouble) {
        return Some(diagnosis);
    }
    let condition = |type_: &str| {
        status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    if condition("Ready") {
        None
    } else if was_ready {
        Some(failed(NodeReason::PodNotReady, format!("pod {name} is not ready any more")))
    } else if condition("PodScheduled") {
        Some(waiting(NodeReason::PodStarting, format!("pod {name} is starting")))
    } else {
        Some(waiting(NodeReason::PodStarting, format!("pod {name} waits for a machine")))
    }
}

fn unschedulable(status: &PodStatus) -> Option<&str> {
    let condition = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })?;
    Some(condition.message.as_deref().unwrap_or("no machine fits"))
}

fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
}

fn container_trouble(container: &ContainerStatus) -> Option<Diagnosis> {
    let state = container.state.as_ref()?;
    let who = if container.name == names::SERVER_CONTAINER {
        "the server".to_owned()
    } else {
        format!("container {}", container.name)
    };
    if let Some(wait) = &state.waiting {
        let words = wait.message.as_deref().unwrap_or_default();
        return match wait.reason.as_deref().unwrap_or_default() {
            "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "RegistryUnavailable" => {
                let message =
                    format!("image {:?} cannot be pulled: {}", container.image, cause_of_pull(words));
                Some(failed(NodeReason::ImagePullFailed, message))
            }
            "CrashLoopBackOff" => Some(crash(&who, last_end(container))),
            reason @ ("CreateContainerConfigError" | "CreateContainerError" | "RunContainerError") => {
                Some(failed(
                    NodeReason::ContainerCreationFailed,
                    format!("{who} cannot be started ({reason}): {words}"),
                ))
            }
            _ => None,
        };
    }
    state.terminated.as_ref().filter(|end| end.exit_code != 0).map(|end| crash(&who, Some(end)))
}

fn last_end(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.last_state.as_ref().and_then(|ContainerState { terminated, .. }| terminated.as_ref())
}

fn crash(who: &str, end: Option<&ContainerStateTerminated>) -> Diagnosis {
    let how = match end {
        None => "ends again and again".to_owned(),
        Some(end) if end.reason.as_deref() == Some("OOMKilled") => {
            "ran out of memory and was killed".to_owned()
        }
        Some(end) => format!("ended with exit code {}", end.exit_code),
    };
    let words = end.and_then(|end| end.message.as_deref()).map(last_words).filter(|words| !words.is_empty());
    let message = match words {
        Some(words) => format!("{who} {how}: {words}"),
        None => format!("{who} {how}"),
    };
    failed(NodeReason::CrashLooping, message)
}

/// While the kubelet backs off it wraps the cause into its own sentence, and drops it for a moment on every try.
fn cause_of_pull(words: &str) -> &str {
    let pausing = words.starts_with("Back-off");
    let cause = words.split_once("\": ").filter(|_| pausing).map_or(words, |(_, cause)| cause);
    let cause = cause.strip_prefix("ErrImagePull: ").unwrap_or(cause);
    if cause.is_empty() || cause.starts_with("Back-off") {
        "the registry does not have it or does not answer"
    } else {
        cause
    }
}

/// The end of what the server printed, in one line, without times and process ids (they change with every start) and
/// without the values of directives that hold secrets.
fn last_words(text: &str) -> String {
    let lines: Vec<String> =
        text.lines().map(|line| redact(strip_prefix(line))).filter(|line| !line.is_empty()).collect();
    let mut words = lines.join(" | ");
    if let Some((start, _)) = words.char_indices().rev().nth(LAST_WORDS) {
        words = format!("…{}", &words[start..]);
    }
    words
}

/// Server lines look like `1:M 15 Nov 2026 20:30:54.123 # message`.
fn strip_prefix(line: &str) -> &str {
    let line = line.trim();
    let is_server_line = line.split_once(':').is_some_and(|(pid, rest)| {
        pid.chars().all(|c| c.is_ascii_digit()) && !pid.is_empty() && rest.chars().nth(1) == Some(' ')
    });
    if !is_server_line {
        return line;
    }
    line.find(['#', '*', '-', '.'])
        .and_then(|_| {
            [" # ", " * ", " - "].iter().filter_map(|mark| line.find(mark).map(|at| at + mark.len())).min()
        })
        .map_or(line, |start| &line[start..])
}

fn redact(line: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        if is_password_rule(word) {
            kept.push("[redacted]");
            continue;
        }
        kept.push(word);
        let name: String = word.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        if valkey::conf::is_secret(&name.to_ascii_lowercase()) {
            kept.push("[redacted]");
            break;
        }
    }
    kept.join(" ")
}

/// Rules of an ACL user that hold a password: `>word`, `<word`, `#hash`. The server marks a bad line with `>>>`.
fn is_password_rule(word: &str) -> bool {
    let rule = word.trim_matches(['\'', '"']);
    match rule.strip_prefix(['>', '<', '#']) {
        Some(secret) => !secret.is_empty() && !secret.starts_with('>'),
        None => false,
    }
}
