//! What a user reads of a bundle.

use std::collections::BTreeSet;

use api::certificates::{BundlePhase, ValkeyCertificateBundleStatus};
use api::condition::{Assessment, CertificateCondition, CertificateReason, merge};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pki::Certificate;

use super::stored::Stored;

/// How many of those are named who are waited for.
const NAMED: usize = 10;

/// What was found out about a bundle.
pub(super) enum Found<'a> {
    /// It signs.
    Signs { stored: &'a Stored, waits_for: &'a BTreeSet<String>, hint: Option<String> },
    /// There is no authority yet.
    Waits { phase: BundlePhase, reason: CertificateReason, message: String },
    /// Something is wrong that somebody must mend.
    Wrong { reason: CertificateReason, message: String },
}

pub(super) fn status(
    found: &Found<'_>,
    before: &ValkeyCertificateBundleStatus,
    generation: Option<i64>,
    now: Timestamp,
) -> ValkeyCertificateBundleStatus {
    let (phase, reason, message) = judged(found, now);
    let ready = Assessment {
        condition: CertificateCondition::Ready,
        state: [BundlePhase::Issued, BundlePhase::Rotating].contains(&phase).into(),
        reason,
        message: message.clone(),
    };
    let mut after = match found {
        Found::Signs { stored, waits_for, .. } => {
            let certificate = stored.issuer.authority.certificate();
            ValkeyCertificateBundleStatus {
                chain: names(stored.issuer.authority.chain()),
                thumbprint: Some(stored.issuer.anchor()),
                issued_at: Some(Time(certificate.begins)),
                expires_at: Some(Time(certificate.ends)),
                published: i64::try_from(stored.generation()).ok(),
                trusted: stored.published().trusted,
                waiting_for: waits_for.iter().take(NAMED).cloned().collect(),
                ca_thumbprint: Some(stored.issuer.root.clone()),
                rotated_for: stored.rotated_for.clone(),
                ..ValkeyCertificateBundleStatus::default()
            }
        }
        // What was signed before is still in use.
        Found::Waits { .. } | Found::Wrong { .. } => before.clone(),
    };
    after.observed_generation = generation;
    after.phase = Some(phase);
    after.message = Some(message);
    after.conditions = merge(&before.conditions, &[ready], generation, now);
    after.last_checked.clone_from(&before.last_checked);
    if after != *before {
        after.last_checked = Some(Time(now));
    }
    after
}

fn judged(found: &Found<'_>, now: Timestamp) -> (BundlePhase, CertificateReason, String) {
    match found {
        Found::Signs { stored, waits_for, hint } => {
            let ends = stored.issuer.authority.certificate().ends;
            if ends <= now {
                let hint = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
                return (BundlePhase::Error, CertificateReason::Unusable, format!("expired at {ends}{hint}"));
            }
            match (stored.is_moving(), hint) {
                (_, Some(hint)) => {
                    (BundlePhase::Issued, CertificateReason::Issued, format!("valid until {ends}; {hint}"))
                }
                (false, None) => {
                    (BundlePhase::Issued, CertificateReason::Issued, format!("valid until {ends}"))
                }
                (true, None) => {
                    let waits = match waits_for.len() {
                        0 => String::new(),
                        1 => format!("; waiting for {}", waits_for.iter().next().map_or("", String::as_str)),
                        many => format!("; waiting for {many} parties"),
                    };
                    let step = step(stored);
                    (BundlePhase::Rotating, CertificateReason::Rotating, format!("{step}{waits}"))
                }
            }
        }
        Found::Waits { phase, reason, message } => (*phase, *reason, message.clone()),
        Found::Wrong { reason, message } => (BundlePhase::Error, *reason, message.clone()),
    }
}

fn step(stored: &Stored) -> &'static str {
    match &stored.next {
        Some(_) => "step 1 of 3: everybody learns to trust the new authority",
        None => "step 2 of 3: everybody gets a certificate of the new authority",
    }
}

fn names(chain: &str) -> Vec<String> {
    Certificate::read_all(chain).unwrap_or_default().into_iter().map(|one| one.name).collect()
}
