//! The users of the spec: their passwords out of Secrets, their rules judged by a server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::condition::ClusterReason;
use api::{cluster, names};
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;
use valkey::acl::{Declaration, User, flaw_of_password};

use super::super::context::Context;
use super::super::observe::{Observed, ObservedNode};
use super::super::server::Keys;
use super::super::validate::Desired;
use super::Problem;
use crate::references::Known;

/// How servers list users, by what was asked: the same question is asked once.
#[derive(Default)]
pub(in super::super) struct Canonical(Mutex<HashMap<String, String>>);

/// More answers than any cluster has users; what is forgotten is asked again.
const REMEMBER: usize = 10_000;

/// What could be made of the spec.
#[derive(Default)]
pub(super) struct Gathered {
    good: Vec<User>,
    problems: Vec<Problem>,
}

impl Gathered {
    pub(super) fn into_parts(self) -> (Vec<User>, Vec<Problem>) {
        (self.good, self.problems)
    }
}

/// Read the Secrets and build the users.
pub(super) async fn gather(desired: &Desired, context: &Context) -> Gathered {
    let mut gathered = Gathered::default();
    for user in &desired.users {
        let passwords = match passwords(user, desired, context).await {
            Ok(passwords) => passwords,
            Err(problem) => {
                gathered.problems.push(problem);
                continue;
            }
        };
        match User::declared(&declaration(user, passwords)) {
            Ok(user) => gathered.good.push(user),
            Err(error) => gathered
                .problems
                .push(Problem { reason: ClusterReason::UsersRefused, message: error.to_string() }),
        }
    }
    gathered
}

fn declaration(user: &cluster::User, passwords: Vec<SecretString>) -> Declaration {
    let commands = user.commands.clone().unwrap_or_default();
    let keys = user.keys.clone().unwrap_or_default();
    Declaration {
        name: user.name.clone(),
        enabled: user.enabled,
        passwords,
        nopass: user.nopass,
        resetpass: user.resetpass,
        allow: commands.allow,
        deny: commands.deny,
        read_write: keys.read_write,
        read_only: keys.read_only,
        write_only: keys.write_only,
        channels: user.channels.clone().unwrap_or_default().patterns,
        permissions: user.permissions.clone().unwrap_or_default(),
    }
}

async fn passwords(
    user: &cluster::User,
    desired: &Desired,
    context: &Context,
) -> Result<Vec<SecretString>, Problem> {
    // Who is to lose every password and names no Secret is to have none.
    if user.nopass || (user.resetpass && user.password_secret.is_none()) {
        return Ok(Vec::new());
    }
    let identity = &desired.identity;
    let reference = user.password_secret.clone().unwrap_or_default();
    let name = reference.name.unwrap_or_else(|| names::users_secret(&identity.name));
    let keys = if reference.keys.is_empty() { vec![user.name.clone()] } else { reference.keys };
    let secret = match context.secret(identity, &name).await {
        Known::There(secret) => secret,
        Known::Missing => return Err(missing(format!("Secret {name} of user {} does not exist", user.name))),
        Known::NotYet => return Err(missing(format!("Secret {name} of user {} cannot be read", user.name))),
    };
    keys.iter().map(|key| password(&secret, &name, key, &user.name)).collect()
}

fn password(secret: &Secret, name: &str, key: &str, user: &str) -> Result<SecretString, Problem> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    let Some(value) = value else {
        return Err(missing(format!("Secret {name} of user {user} has no key {key:?}")));
    };
    let unusable = |why: &str| missing(format!("key {key:?} of Secret {name} of user {user} {why}"));
    let text = std::str::from_utf8(&value.0).map_err(|_| unusable("is not text"))?;
    let password = SecretString::from(text.trim_end_matches(['\r', '\n']));
    match flaw_of_password(&password) {
        Some(flaw) => Err(unusable(&flaw.to_string())),
        None => Ok(password),
    }
}

fn missing(message: String) -> Problem {
    Problem { reason: ClusterReason::PasswordSecretMissing, message }
}

/// Have one server say how it would list each user. `None` if there is no server to ask yet.
pub(super) async fn judge(
    users: Vec<User>,
    observed: &Observed,
    keys: &Keys,
    context: &Context,
) -> (Option<Vec<User>>, Vec<Problem>) {
    let judge = observed.nodes.values().find(|node| node.server.facts().is_some());
    let Some(address) = judge.and_then(ObservedNode::address) else { return (None, Vec::new()) };
    let version = judge.and_then(|node| node.server.facts()?.version).map(|version| version.to_string());
    let (mut judged, mut problems) = (Vec::new(), Vec::new());
    let mut connection = None;
    for user in users {
        let question = format!("{version:?} {}", valkey::acl::line(&user));
        if let Some(line) = context.canonical.recall(&question) {
            judged.push(user.with_canonical(&line));
            continue;
        }
        if connection.is_none() {
            connection = keys.open(address).await.ok().map(|(connection, _)| connection);
        }
        let Some(connection) = &connection else { return (None, problems) };
        match connection.acl_canonical(&user).await {
            Ok(line) => {
                context.canonical.remember(&question, line.clone());
                judged.push(user.with_canonical(&line));
            }
            Err(error @ valkey::Error::Server { .. }) => {
                let words = error.server_message().unwrap_or_default();
                let message = format!("user {} is refused by the server: {words}", user.name());
                problems.push(Problem { reason: ClusterReason::UsersRefused, message });
            }
            // Silence is no verdict.
            Err(_) => return (None, problems),
        }
    }
    (Some(judged), problems)
}

impl Canonical {
    fn recall(&self, question: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&digest(question)).cloned()
    }

    fn remember(&self, question: &str, line: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBER {
            known.clear();
        }
        known.insert(digest(question), line);
    }
}

/// Hashes of passwords are not kept in memory longer than needed.
fn digest(question: &str) -> String {
    kit::digest::of_text(question)
}
