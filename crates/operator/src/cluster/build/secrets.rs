//! The two Secrets of a cluster: passwords of the system users, and the users file every server starts with.

use std::collections::BTreeMap;

use api::names;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use secrecy::{ExposeSecret as _, SecretString};

use super::Identity;
use crate::objects::{Kind, Wanted};

/// Name of the users file in its Secret and in the pod.
pub(super) const USERS_FILE: &str = "users.acl";

/// Passwords by user.
pub(in super::super) fn passwords(identity: &Identity, passwords: &BTreeMap<String, SecretString>) -> Wanted {
    let data = passwords
        .iter()
        .map(|(user, password)| (user.clone(), ByteString(password.expose_secret().as_bytes().to_vec())))
        .collect();
    secret(identity, names::system_passwords_secret(&identity.name), data)
}

/// The users file.
pub(in super::super) fn users_file(identity: &Identity, text: &str) -> Wanted {
    let data = BTreeMap::from([(USERS_FILE.to_owned(), ByteString(text.as_bytes().to_vec()))]);
    secret(identity, names::acl_secret(&identity.name), data)
}

fn secret(identity: &Identity, name: String, data: BTreeMap<String, ByteString>) -> Wanted {
    let secret = Secret {
        metadata: identity.owned(name),
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    Wanted::new(Kind::Secret, &secret)
}
