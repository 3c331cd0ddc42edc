//! Passwords that this run of the operator has seen or made. A Secret that somebody deletes is written again with what the
//! servers know.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;

use super::super::validate::Desired;
use super::passwords::{Passwords, choose};

/// By the uid of the cluster.
#[derive(Default)]
pub(in super::super) struct Remembered(Mutex<HashMap<String, Passwords>>);

impl Remembered {
    /// The passwords of a cluster, whatever has become of its Secret.
    pub(in super::super) fn hold(&self, desired: &Desired, stored: Option<&Secret>) -> Passwords {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = remembered.entry(desired.identity.uid.clone()).or_default();
        *before = choose(desired, stored, before, fresh);
        before.clone()
    }

    /// What the Secret is about to hold.
    pub(super) fn keep(&self, uid: &str, passwords: &Passwords) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.insert(uid.to_owned(), passwords.clone());
    }

    /// Only these clusters are still there.
    pub(in super::super) fn retain(&self, there: &HashSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| there.contains(uid));
    }
}

/// 32 random bytes as text.
pub(super) fn fresh() -> SecretString {
    let mut bytes = [0u8; 32];
    if rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).is_err() {
        tracing::error!(
            "the system has no randomness; a password of an operator's user is empty and will be refused"
        );
        return SecretString::default();
    }
    let mut text = String::with_capacity(64);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    SecretString::from(text)
}
