//! Passwords of the operator's own users: what their Secret holds, and what becomes of it. Made once, then changed only
//! when a user asks for it. Servers accept whatever the Secret holds, so what is not in it lets nobody in.

use std::collections::BTreeMap;

use api::keys;
use k8s_openapi::api::core::v1::Secret;
use secrecy::{ExposeSecret as _, SecretString};
use valkey::acl::SystemUser;

use super::super::observe::password_of;
use super::super::validate::Desired;
use super::system_users;

/// The passwords of one user.
#[derive(Clone, Debug)]
pub(in super::super) struct Password {
    /// What everybody uses; in the Secret under the user's name.
    pub(in super::super) current: SecretString,
    /// What servers are being taught, and nobody uses yet.
    pub(in super::super) next: Option<SecretString>,
    /// What everybody used before the last rotation, and some still do.
    pub(in super::super) previous: Option<SecretString>,
}

impl Password {
    fn new(current: SecretString) -> Self {
        Self { current, next: None, previous: None }
    }

    /// Everything that lets the user in, what is used most first. The users file has them in this order, so a switch
    /// makes another file even where the passwords stay the same: once it has arrived in a pod, so has the Secret that
    /// was written before it.
    fn accepted(&self) -> Vec<SecretString> {
        let all = [Some(&self.current), self.previous.as_ref(), self.next.as_ref()].into_iter().flatten();
        // Nobody is ever let in without a password.
        all.filter(|password| is_one(password)).cloned().collect()
    }

    fn offered(&self, next: SecretString) -> Self {
        Self { next: Some(next).filter(is_one), ..self.clone() }
    }

    fn switched(self) -> Self {
        match self.next {
            Some(next) => Self { current: next, next: None, previous: Some(self.current) },
            None => self,
        }
    }
}

/// The passwords of all system users.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Passwords {
    pub(in super::super) users: BTreeMap<SystemUser, Password>,
    /// The order to rotate that they were last changed for.
    pub(in super::super) rotation: Option<String>,
}

impl Passwords {
    /// Everything that lets a user in.
    pub(in super::super) fn accepted(&self, user: SystemUser) -> Vec<SecretString> {
        self.users.get(&user).map(Password::accepted).unwrap_or_default()
    }

    /// Servers are being taught new ones.
    pub(in super::super) fn are_changing(&self) -> bool {
        self.users.values().any(|password| password.next.is_some())
    }

    /// As the Secret holds them, by key.
    pub(in super::super) fn by_key(&self) -> BTreeMap<String, &SecretString> {
        let mut all = BTreeMap::new();
        for (user, password) in &self.users {
            all.insert(user.name().to_owned(), &password.current);
            all.extend(password.next.as_ref().map(|next| (next_key(*user), next)));
            all.extend(password.previous.as_ref().map(|previous| (previous_key(*user), previous)));
        }
        all
    }

    /// A new one for everybody, which servers learn before anybody uses it.
    pub(super) fn offered(&self, order: &str, mut fresh: impl FnMut() -> SecretString) -> Self {
        let users = self.users.iter().map(|(user, password)| (*user, password.offered(fresh()))).collect();
        Self { users, rotation: Some(order.to_owned()) }
    }

    /// The new ones are used, those before stay valid, and those before them are gone.
    pub(super) fn switched(self) -> Self {
        let users = self.users.into_iter().map(|(user, password)| (user, password.switched())).collect();
        Self { users, rotation: self.rotation }
    }
}

fn is_one(password: &SecretString) -> bool {
    !password.expose_secret().is_empty()
}

fn next_key(user: SystemUser) -> String {
    format!("{}.next", user.name())
}

fn previous_key(user: SystemUser) -> String {
    format!("{}.previous", user.name())
}

/// Those of the Secret; for what is missing there, those of before; for what is new, fresh ones.
pub(in super::super) fn choose(
    desired: &Desired,
    stored: Option<&Secret>,
    before: &Passwords,
    mut fresh: impl FnMut() -> SecretString,
) -> Passwords {
    // From where the passwords come: a cache that is behind must not be called rotated by what is remembered.
    let noted = match stored {
        Some(stored) => rotation_of(stored),
        None => before.rotation.clone(),
    };
    let is_first = stored.is_none() && before.users.is_empty();
    let users = system_users(desired)
        .map(|user| (user, of_user(user, stored, before.users.get(&user), &mut fresh)))
        .collect();
    // Passwords that are made now are as new as an order could want them.
    Passwords { users, rotation: noted.or_else(|| desired.rotation.clone().filter(|_| is_first)) }
}

fn of_user(
    user: SystemUser,
    stored: Option<&Secret>,
    before: Option<&Password>,
    fresh: &mut impl FnMut() -> SecretString,
) -> Password {
    let read = |key: &str| stored.and_then(|secret| password_of(secret, key));
    let previous = read(&previous_key(user));
    match read(user.name()) {
        Some(current) => Password { current, next: read(&next_key(user)), previous },
        // Servers know this one, which cannot be said of a fresh one.
        None => before.cloned().or(previous.map(Password::new)).unwrap_or_else(|| Password::new(fresh())),
    }
}

/// The order to rotate that a Secret was changed for.
fn rotation_of(secret: &Secret) -> Option<String> {
    secret.metadata.annotations.as_ref()?.get(keys::ROTATE_SYSTEM_PASSWORDS).cloned()
}

/// The order that a Secret has been through to its end.
pub(super) fn rotated(secret: &Secret) -> Option<String> {
    let is_over = SystemUser::ALL.into_iter().all(|user| password_of(secret, &next_key(user)).is_none());
    rotation_of(secret).filter(|_| is_over)
}
