//! A root that somebody else looks after.

use api::certificates::ValkeyCASpec;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use pki::{Certificate, lifetime, split};

use super::status::{Found, State};
use super::stored::{self, Unreadable};
use super::{Seen, unusable, waiting};

/// What is in the Secret that somebody else fills, tried before it is believed.
pub(super) fn given(spec: &ValkeyCASpec, live: Option<&Secret>, name: &str, now: Timestamp) -> Seen {
    let Some(secret) = live else {
        let all = vec!["tls.crt".to_owned(), "tls.key".to_owned()];
        return waiting(all, format!("Secret {name} does not exist")).into();
    };
    let root = match stored::root(secret) {
        Ok(root) => root,
        Err(Unreadable::Missing(missing)) => {
            let message = format!("Secret {name} lacks {}", missing.join(" and "));
            return waiting(missing, message).into();
        }
        Err(Unreadable::Broken(why)) => return unusable(format!("Secret {name}: {why}")).into(),
    };
    if let Err(error) = root.authority.prove(now) {
        return unusable(format!("Secret {name}: {}", kit::telemetry::chain(&error))).into();
    }
    let certificate = root.authority.certificate().clone();
    let due = lifetime::due(certificate.begins, certificate.ends, spec.rotate_before_percent);
    let state = if now < due { State::Settled } else { State::Late };
    let moments = [due, certificate.ends].into_iter().filter(|moment| *moment > now).collect();
    let found = Found::Root {
        certificate: Box::new(certificate),
        trusted: thumbprints(&root.trusted),
        state,
        rotated_for: None,
    };
    Seen { found, moments, error: None }
}

fn thumbprints(trusted: &str) -> Vec<String> {
    split(trusted).iter().filter_map(|pem| Certificate::read(pem).ok()).map(|one| one.thumbprint).collect()
}
