//! Reads the API server's record of mutating calls.

use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use snafu::{ResultExt, Snafu};

use crate::files::{self, FileError};

/// The record could not be read.
#[derive(Debug, Snafu)]
pub enum AuditError {
    /// Its file.
    #[snafu(display("failed to read the audit log"))]
    Read {
        /// The cause.
        source: FileError,
    },
    /// A line of it.
    #[snafu(display("failed to understand line {line} of the audit log"))]
    Parse {
        /// The number of the line, counted from 1.
        line: usize,
        /// The cause.
        source: serde_json::Error,
    },
}

/// One mutating call that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When the call arrived.
    pub at: Timestamp,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Who called, e.g. `system:serviceaccount:valkey-system:operator`.
    pub user: String,
    /// The calling program's name for itself.
    pub user_agent: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind of object in the plural, e.g. `pods`.
    pub resource: String,
    /// `status`, `eviction`, ...; empty for the object itself.
    pub subresource: String,
    /// Empty for objects outside of namespaces.
    pub namespace: String,
    /// Empty for calls on a whole collection and creations under a generated name.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
}

/// The calls that arrived at or after `since`.
pub fn read_since(log: &Path, since: Timestamp) -> Result<Vec<AuditEntry>, AuditError> {
    let text = files::read(log).context(ReadSnafu)?.unwrap_or_default();
    let mut entries = parse(&text)?;
    entries.retain(|entry| entry.at >= since);
    Ok(entries)
}

fn parse(text: &str) -> Result<Vec<AuditEntry>, AuditError> {
    // The last line may still be in the writing.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(index, line)| {
            let event: Event = serde_json::from_str(line).context(ParseSnafu { line: index + 1 })?;
            Ok(AuditEntry::from(event))
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    request_received_timestamp: Timestamp,
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectReference,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectReference {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl From<Event> for AuditEntry {
    fn from(event: Event) -> Self {
        let ObjectReference { api_group: group, resource, subresource, namespace, name } = event.object_ref;
        Self {
            at: event.request_received_timestamp,
            verb: event.verb,
            user: event.user.username,
            user_agent: event.user_agent,
            group,
            resource,
            subresource,
            namespace,
            name,
            code: event.response_status.code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/demo/pods/a/status","verb":"patch","user":{"username":"system:node:node-1","groups":["system:nodes"]},"sourceIPs":["10.89.0.11"],"userAgent":"kubelet/v1.35.4","objectRef":{"resource":"pods","namespace":"demo","name":"a","apiVersion":"v1","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z","stageTimestamp":"2026-01-02T03:04:05.700000Z","annotations":{"authorization.k8s.io/decision":"allow"}}"#;

    #[test]
    fn reads_who_did_what_to_which_object() {
        let entries = parse(&format!("{LINE}\n")).unwrap();
        assert_eq!(entries.len(), 1);
        let entry = &entries[0];
        assert_eq!((entry.user.as_str(), entry.verb.as_str()), ("system:node:node-1", "patch"));
        assert_eq!((entry.resource.as_str(), entry.subresource.as_str()), ("pods", "status"));
        assert_eq!((entry.namespace.as_str(), entry.name.as_str(), entry.code), ("demo", "a", 200));
        assert_eq!(entry.at, "2026-01-02T03:04:05.678901Z".parse::<Timestamp>().unwrap());
    }

    #[test]
    fn a_line_in_the_writing_is_left_for_later() {
        assert_eq!(parse(&format!("{LINE}\n{}", &LINE[..40])).unwrap().len(), 1);
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = parse(&format!("{LINE}\nnonsense\n")).unwrap_err();
        assert_eq!(error.to_string(), "failed to understand line 2 of the audit log");
    }

    #[test]
    fn earlier_calls_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        std::fs::write(&log, format!("{LINE}\n")).unwrap();
        let count = |since: &str| read_since(&log, since.parse().unwrap()).unwrap().len();
        assert_eq!(count("2026-01-02T03:04:05Z"), 1);
        assert_eq!(count("2026-01-02T03:04:06Z"), 0);
    }
}
