//! What a user reads of a root.

use api::certificates::{CaPhase, ValkeyCAStatus};
use api::condition::{Assessment, CertificateCondition, CertificateReason, merge};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pki::Certificate;

/// How many of those are named who are waited for.
const NAMED: usize = 3;

/// What was found out about a root.
#[derive(Debug)]
pub(super) enum Found {
    /// It signs.
    Root { certificate: Box<Certificate>, trusted: Vec<String>, state: State, rotated_for: Option<String> },
    /// Its Secret is not there, or lacks keys.
    Waiting { missing: Vec<String>, message: String },
    /// Something is wrong with it that somebody must mend.
    Wrong { reason: CertificateReason, message: String },
}

/// How a root that signs is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Settled,
    /// A new one is known, and does not sign yet.
    Announced,
    /// The one before is still trusted; these are not signed by the new one yet.
    Overlapping(Vec<String>),
    /// It is not ours to replace, and most of its life is over.
    Late,
}

pub(super) fn status(
    found: &Found,
    secret_name: &str,
    before: &ValkeyCAStatus,
    generation: Option<i64>,
    now: Timestamp,
) -> ValkeyCAStatus {
    let (phase, reason, message) = judged(found);
    let ready = Assessment {
        condition: CertificateCondition::Ready,
        state: matches!(found, Found::Root { .. }).into(),
        reason,
        message: message.clone(),
    };
    let mut after = ValkeyCAStatus {
        observed_generation: generation,
        phase: Some(phase),
        message: Some(message),
        secret_name: Some(secret_name.to_owned()),
        conditions: merge(&before.conditions, &[ready], generation, now),
        // What was signed before is still in use.
        thumbprint: before.thumbprint.clone(),
        issued_at: before.issued_at.clone(),
        expires_at: before.expires_at.clone(),
        trusted: before.trusted.clone(),
        rotated_for: before.rotated_for.clone(),
        missing_keys: Vec::new(),
        last_checked: before.last_checked.clone(),
    };
    match found {
        Found::Root { certificate, trusted, rotated_for, .. } => {
            after.thumbprint = Some(certificate.thumbprint.clone());
            after.issued_at = Some(Time(certificate.begins));
            after.expires_at = Some(Time(certificate.ends));
            after.trusted.clone_from(trusted);
            after.rotated_for.clone_from(rotated_for);
        }
        Found::Waiting { missing, .. } => after.missing_keys.clone_from(missing),
        Found::Wrong { .. } => {}
    }
    if after != *before {
        after.last_checked = Some(Time(now));
    }
    after
}

fn judged(found: &Found) -> (CaPhase, CertificateReason, String) {
    match found {
        Found::Root { certificate, state, .. } => {
            let ends = certificate.ends;
            match state {
                State::Settled => (CaPhase::Ready, CertificateReason::Issued, format!("valid until {ends}")),
                State::Announced => (
                    CaPhase::Rotating,
                    CertificateReason::Rotating,
                    "a new root is known, and signs after the overlap".to_owned(),
                ),
                State::Overlapping(lagging) => {
                    let mut message = "the root before is trusted for the overlap, and until everything below is signed by the new one".to_owned();
                    if !lagging.is_empty() {
                        let some = lagging.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
                        let more = lagging.len().saturating_sub(NAMED);
                        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                        message.push_str(&format!("; waiting for {some}{more}"));
                    }
                    (CaPhase::Rotating, CertificateReason::Rotating, message)
                }
                State::Late => (
                    CaPhase::Expiring,
                    CertificateReason::Expiring,
                    format!("valid until {ends} only: put a new root into the Secret"),
                ),
            }
        }
        Found::Waiting { message, .. } => {
            (CaPhase::Pending, CertificateReason::WaitingForSecret, message.clone())
        }
        Found::Wrong { reason, message } => (CaPhase::Error, *reason, message.clone()),
    }
}
