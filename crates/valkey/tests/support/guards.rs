//! A file of the operator's own users, beside one that writes data and one that looks after the others.

use std::fs;

use secrecy::SecretString;
use tempfile::TempDir;
use valkey::acl::{Declaration, SystemUser, User, render_file};
use valkey::testing::Server;
use valkey::{Connection, Error};

use super::cluster::{Login, target};
use super::connect;

/// The users of a cluster that lets nobody in without a name.
pub(crate) struct Guards {
    folder: TempDir,
    passwords: Vec<(&'static str, SecretString)>,
    beside_agents: bool,
}

/// Writes and reads keys.
pub(crate) const WRITER: &str = "writer";
/// Sees what the others were denied.
pub(crate) const AUDITOR: &str = "auditor";

impl Guards {
    pub(crate) fn new() -> Self {
        Self::of(false)
    }

    /// Those of a cluster with an agent beside every server.
    pub(crate) fn beside_agents() -> Self {
        Self::of(true)
    }

    fn of(beside_agents: bool) -> Self {
        let folder = tempfile::tempdir().expect("should make a folder");
        let names = SystemUser::ALL.map(SystemUser::name).into_iter().chain([WRITER, AUDITOR]);
        // Each has a password of its own: with a common one a mix-up would go unseen.
        let passwords = names.map(|name| (name, format!("password of {name}").into())).collect();
        let guards = Self { folder, passwords, beside_agents };
        fs::write(guards.path(), render_file(&guards.users()).text).expect("should write");
        guards
    }

    pub(crate) fn users(&self) -> Vec<User> {
        let password = |name: &str| self.login(name).map(|(_, password)| password.clone());
        let declared = |name: &str, permissions: &str| {
            let declaration = Declaration {
                name: name.to_owned(),
                enabled: !permissions.is_empty(),
                passwords: password(name).into_iter().collect(),
                permissions: permissions.to_owned(),
                ..Declaration::default()
            };
            User::declared(&declaration).expect("should be a user")
        };
        let system = SystemUser::ALL.map(|user| {
            let made = if self.beside_agents { User::system_beside_agents } else { User::system };
            made(user, password(user.name()).as_slice())
        });
        let others = [
            declared("default", ""),
            declared(WRITER, "~* &* +@all -@admin -@dangerous"),
            declared(AUDITOR, "+acl|log +acl|dryrun +client|kill +ping"),
        ];
        system.into_iter().chain(others).collect()
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("users.acl")
    }

    /// What every server needs in its configuration.
    pub(crate) fn conf(&self) -> String {
        let (user, password) = self.login("_replication").expect("should have a password");
        let password = secrecy::ExposeSecret::expose_secret(password);
        format!("aclfile {}\nprimaryuser {user}\nprimaryauth \"{password}\"", self.path().display())
    }

    pub(crate) fn login(&self, name: &str) -> Login<'_> {
        self.passwords.iter().find(|(known, _)| *known == name).map(|(name, password)| (*name, password))
    }

    /// A connection as one of them.
    pub(crate) async fn enter(&self, server: &Server, name: &str) -> Connection {
        connect(target(server, self.login(name))).await.expect("should let it in")
    }
}

/// Fails where the door was closed; anything else a server says is up to the test.
#[track_caller]
pub(crate) fn allowed<T>(what: &str, result: Result<T, Error>) {
    if let Err(error) = result {
        assert!(!error.is_auth(), "{what}: {error}");
    }
}
