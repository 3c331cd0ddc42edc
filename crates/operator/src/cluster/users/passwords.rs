//! Passwords of the operator's own users: made once, then never changed while their Secret exists.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use secrecy::SecretString;

use super::super::context::Context;
use super::super::observe::{Observed, password_of};
use super::super::validate::Desired;
use super::system_users;

/// Passwords by user, by the uid of the cluster. A Secret that somebody deletes is written again with what the servers
/// know.
#[derive(Default)]
pub(in super::super) struct Remembered(Mutex<HashMap<String, BTreeMap<String, SecretString>>>);

/// Those of the Secret; for what is missing there, those of before; for what is new, fresh ones.
pub(super) fn ensure(
    desired: &Desired,
    observed: &Observed,
    context: &Context,
) -> BTreeMap<String, SecretString> {
    let uid = &desired.identity.uid;
    let mut remembered = context.passwords.0.lock().unwrap_or_else(PoisonError::into_inner);
    let before = remembered.remove(uid).unwrap_or_default();
    let passwords = choose(desired, observed, &before, fresh);
    remembered.insert(uid.clone(), passwords.clone());
    passwords
}

pub(in super::super) fn choose(
    desired: &Desired,
    observed: &Observed,
    before: &BTreeMap<String, SecretString>,
    mut fresh: impl FnMut() -> SecretString,
) -> BTreeMap<String, SecretString> {
    system_users(desired)
        .map(|user| {
            let name = user.name().to_owned();
            let stored = observed.passwords.as_deref().and_then(|secret| password_of(secret, &name));
            let password = stored.or_else(|| before.get(&name).cloned()).unwrap_or_else(&mut fresh);
            (name, password)
        })
        .collect()
}

impl Remembered {
    /// A cluster is gone.
    pub(in super::super) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// 32 random bytes as text.
fn fresh() -> SecretString {
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
