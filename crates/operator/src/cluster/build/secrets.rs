//! The two Secrets of a cluster: passwords of the system users, and the users file every server starts with.

use std::collections::BTreeMap;

use api::{keys, names};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use secrecy::ExposeSecret as _;

use super::super::users::Passwords;
use super::Identity;
use crate::objects::{Kind, Wanted};

/// Name of the users file in its Secret and in the pod.
pub(in super::super) const USERS_FILE: &str = "users.acl";

/// Passwords by user, with the order they were last changed for.
pub(in super::super) fn passwords(identity: &Identity, passwords: &Passwords) -> Wanted {
    let data = passwords
        .by_key()
        .into_iter()
        .map(|(key, password)| (key, ByteString(password.expose_secret().as_bytes().to_vec())))
        .collect();
    let mut secret = secret(identity, names::system_passwords_secret(&identity.name), data);
    if let Some(rotation) = &passwords.rotation {
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::ROTATE_SYSTEM_PASSWORDS.to_owned(), rotation.clone());
    }
    Wanted::new(Kind::Secret, &secret)
}

/// The users file.
pub(in super::super) fn users_file(identity: &Identity, text: &str) -> Wanted {
    let data = BTreeMap::from([(USERS_FILE.to_owned(), ByteString(text.as_bytes().to_vec()))]);
    Wanted::new(Kind::Secret, &secret(identity, names::acl_secret(&identity.name), data))
}

fn secret(identity: &Identity, name: String, data: BTreeMap<String, ByteString>) -> Secret {
    Secret {
        metadata: identity.owned(name),
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}
