//! The users of a cluster: the operator's own and those of the spec, as a file for servers that start and as changes
//! for servers that run.

mod declared;
pub(super) mod passwords;

use std::collections::BTreeMap;

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
pub(super) use passwords::Remembered;

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
    pub(super) passwords: BTreeMap<String, SecretString>,
    /// The file servers start with; `None` to leave it as it is.
    pub(super) file: Option<AclFile>,
    /// What running servers should have; `None` to leave them as they are.
    pub(super) wanted: Option<Vec<User>>,
    pub(super) problems: Vec<Problem>,
}

/// Put the users together. Rules that a server would refuse are found by asking one, before anything is written: a
/// server that is started with a bad file does not start.
pub(super) async fn gather(desired: &Desired, observed: &Observed, keys: &Keys, context: &Context) -> Users {
    let passwords = passwords::ensure(desired, observed, context);
    let declared = declared::gather(desired, context).await;
    let (good, mut problems) = declared.into_parts();
    let (judged, refusals) = declared::judge(good, observed, keys, context).await;
    problems.extend(refusals);
    assemble(desired, observed, passwords, judged, problems)
}

/// What is to be given to the servers. `judged` are the users of the spec once a server has been asked about them.
pub(super) fn assemble(
    desired: &Desired,
    observed: &Observed,
    passwords: BTreeMap<String, SecretString>,
    judged: Option<Vec<User>>,
    problems: Vec<Problem>,
) -> Users {
    let mut all: Vec<User> = system_users(desired)
        .map(|user| User::system(user, passwords.get(user.name()).cloned().as_slice()))
        .collect();
    let has_file = observed.users_file.is_some();
    let complete = judged.is_some() && problems.is_empty();
    // For servers that do not exist yet, what is known to be good is enough to begin with.
    all.extend(judged.unwrap_or_default());
    Users {
        passwords,
        file: (complete || !has_file).then(|| acl::render_file(&all)),
        wanted: complete.then_some(all),
        problems,
    }
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
