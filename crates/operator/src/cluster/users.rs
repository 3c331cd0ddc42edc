//! The users of a cluster: the operator's own and those of the spec, as a file for servers that start and as changes
//! for servers that run.

mod declared;
pub(super) mod passwords;
mod remembered;
mod rights;
pub(super) mod rotation;

use std::collections::BTreeMap;

use api::ValkeyClusterStatus;
use api::condition::ClusterReason;
use secrecy::SecretString;
use valkey::Connection;
use valkey::acl::{self, AclChange, AclFile, SystemUser, User};

use super::context::Context;
use super::observe::Observed;
use super::server::Keys;
use super::topology::{Place, Topology};
use super::validate::Desired;

pub(super) use declared::Canonical;
pub(super) use passwords::Passwords;
pub(super) use remembered::Remembered;
pub(super) use rotation::Turn;

/// Changes for one server.
pub(super) type Changes = Vec<AclChange>;

/// Why the users of the spec cannot be given to the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: ClusterReason,
    pub(super) message: String,
}

/// The users as they should be.
#[derive(Clone, Debug, Default)]
pub(super) struct Users {
    /// Passwords of the operator's own users.
    pub(super) passwords: Passwords,
    /// What this pass decided about them.
    pub(super) turn: Option<Turn>,
    /// The order to rotate them that the Secret has been through.
    pub(super) rotated: Option<String>,
    /// The file servers start with; `None` to leave it as it is.
    pub(super) file: Option<AclFile>,
    /// What running servers should have; `None` to leave them as they are.
    pub(super) wanted: Option<Vec<User>>,
    pub(super) problems: Vec<Problem>,
}

/// Put the users together. Rules that a server would refuse are found by asking one, before anything is written: a
/// server that is started with a bad file does not start.
pub(super) async fn gather(
    desired: &Desired,
    observed: &Observed,
    topology: &Topology<'_>,
    before: &ValkeyClusterStatus,
    keys: &Keys,
    context: &Context,
) -> Users {
    let held = context.passwords.hold(desired, observed.passwords.as_deref());
    let declared = declared::gather(desired, context).await;
    let (good, mut problems) = declared.into_parts();
    let (judged, refusals) = declared::judge(good, observed, keys, context).await;
    problems.extend(refusals);
    let declared = Judged { users: judged, problems };
    let users = assemble(desired, observed, topology, before, held, &declared, remembered::fresh);
    context.passwords.keep(&desired.identity.uid, &users.passwords);
    users
}

/// The users of the spec, once a server has been asked about them.
pub(super) struct Judged {
    /// `None` if there was no server to ask.
    pub(super) users: Option<Vec<User>>,
    pub(super) problems: Vec<Problem>,
}

/// What is to be given to the servers, with the passwords as they are or as they become in this pass.
pub(super) fn assemble(
    desired: &Desired,
    observed: &Observed,
    topology: &Topology<'_>,
    before: &ValkeyClusterStatus,
    held: Passwords,
    declared: &Judged,
    fresh: impl FnMut() -> SecretString,
) -> Users {
    let users = with_passwords(desired, observed, held, declared);
    let settled = are_settled(&users, desired, topology);
    let obeyed = before.acl.as_ref().and_then(|acl| acl.password_rotation.as_deref());
    let (next, turn) =
        rotation::advance(users.passwords.clone(), desired.rotation.as_deref(), obeyed, settled, fresh);
    if turn.is_none() {
        return users;
    }
    Users { turn, ..with_passwords(desired, observed, next, declared) }
}

fn with_passwords(desired: &Desired, observed: &Observed, passwords: Passwords, declared: &Judged) -> Users {
    let Judged { users: judged, problems } = declared;
    let agents_do_the_rest = rights::agents_do_the_rest(desired, observed);
    let system = if agents_do_the_rest { User::system_beside_agents } else { User::system };
    let mut all: Vec<User> =
        system_users(desired).map(|user| system(user, &passwords.accepted(user))).collect();
    let has_file = observed.users_file.is_some();
    let complete = judged.is_some() && problems.is_empty();
    // For servers that do not exist yet, what is known to be good is enough to begin with.
    all.extend(judged.clone().unwrap_or_default());
    Users {
        passwords,
        turn: None,
        rotated: observed.passwords.as_deref().and_then(passwords::rotated),
        file: (complete || !has_file).then(|| acl::render_file(&all)),
        wanted: complete.then_some(all),
        problems: problems.clone(),
    }
}

/// Every server answers, has exactly these users, would start with them, and follows with the password in use.
fn are_settled(users: &Users, desired: &Desired, topology: &Topology<'_>) -> bool {
    topology.silent.is_empty()
        && desired.places().all(|place| topology.members.contains_key(&place))
        && users.wanted.is_some()
        && changes(users, topology).is_empty()
        && arrived_everywhere(users, topology)
        && topology.members.values().all(|member| !member.facts.shows_old_password)
}

fn system_users(desired: &Desired) -> impl Iterator<Item = SystemUser> {
    let exporter = desired.exporter.is_some();
    SystemUser::ALL.into_iter().filter(move |user| exporter || *user != SystemUser::Exporter)
}

/// What each running server still lacks.
pub(super) fn changes(users: &Users, topology: &Topology<'_>) -> BTreeMap<Place, Changes> {
    let Some(wanted) = &users.wanted else { return BTreeMap::new() };
    topology
        .members
        .iter()
        .map(|(place, member)| (*place, acl::difference(wanted, &member.facts.users)))
        .filter(|(_, changes)| !changes.is_empty())
        .collect()
}

/// Whether every server has loaded the newest file: a restart then gives the same users.
pub(super) fn arrived_everywhere(users: &Users, topology: &Topology<'_>) -> bool {
    let Some(file) = &users.file else { return false };
    !topology.members.is_empty()
        && topology
            .members
            .values()
            .all(|member| acl::loaded_revision(&member.facts.users).as_deref() == Some(&file.revision))
}

/// Bring one server in line.
pub(super) async fn apply(connection: &Connection, changes: &Changes) -> Result<(), valkey::Error> {
    for change in changes {
        match change {
            AclChange::Set { name, rules } => connection.acl_set_user(name, rules).await?,
            AclChange::Delete { name } => connection.acl_del_users(&[name.as_str()]).await?,
        }
    }
    Ok(())
}
