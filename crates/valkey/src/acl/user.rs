//! One user: its name, how it logs in, and what it may do.

use std::fmt;

use secrecy::SecretString;

use super::SystemUser;
use super::listed::ListedUser;
use super::password::hash_of;

/// A user as it is wanted.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    pub(super) name: String,
    pub(super) login: Login,
    /// What it may do, word by word as the server reads it.
    pub(super) rules: Vec<String>,
    /// The same as a server lists it, once one was asked.
    pub(super) canonical: Option<String>,
}

/// Whether and how a user gets in.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) enabled: bool,
    /// Any password will do.
    pub(super) nopass: bool,
    /// Hashes, each once, in the order they were given.
    pub(super) passwords: Vec<String>,
}

impl Login {
    pub(super) fn add(&mut self, hash: String) {
        self.nopass = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    pub(super) fn remove(&mut self, hash: &str) {
        self.passwords.retain(|known| known != hash);
    }

    fn words(&self) -> impl Iterator<Item = String> {
        let state = if self.enabled { "on" } else { "off" };
        let nopass = self.nopass.then_some("nopass");
        let words = [Some(state), nopass].into_iter().flatten().map(str::to_owned);
        words.chain(self.passwords.iter().map(|hash| format!("#{hash}")))
    }
}

impl User {
    /// A user of the operator itself, with its passwords: two while one replaces the other.
    pub fn system(user: SystemUser, passwords: &[SecretString]) -> Self {
        Self::with_rules(user, user.rules(), passwords)
    }

    /// The same where every server has an agent beside it.
    pub fn system_beside_agents(user: SystemUser, passwords: &[SecretString]) -> Self {
        Self::with_rules(user, &user.rules_beside_agents(), passwords)
    }

    fn with_rules(user: SystemUser, rules: &str, passwords: &[SecretString]) -> Self {
        let mut login = Login { enabled: true, ..Login::default() };
        for password in passwords {
            login.add(hash_of(password));
        }
        Self {
            name: user.name().to_owned(),
            login,
            rules: rules.split(' ').map(str::to_owned).collect(),
            // Written as servers list them, which a test holds true.
            canonical: Some(rules.to_owned()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same user, with its line as a server would list it: what
    /// [`Connection::acl_canonical`](crate::Connection::acl_canonical) answers. A line that is none is ignored.
    #[must_use]
    pub fn with_canonical(mut self, line: &str) -> Self {
        if let Some((_, listed)) = ListedUser::parse(line) {
            self.canonical = Some(listed.rules);
        }
        self
    }

    /// The whole of `ACL SETUSER` for it: whatever the user was before, afterwards it is this.
    pub fn set_rules(&self) -> Rules {
        let words = self.login.words().chain(self.rules.iter().cloned());
        Rules(std::iter::once("reset".to_owned()).chain(words).collect())
    }

    /// What it may do, without how it logs in.
    pub(crate) fn permissions(&self) -> &[String] {
        &self.rules
    }

    /// The line a server would write for it, given its rules as the server writes them.
    pub(crate) fn line_with(&self, rules: &str) -> String {
        let mut words = vec!["user".to_owned(), self.name.clone()];
        words.extend(self.login.words());
        words.extend((!rules.is_empty()).then(|| rules.to_owned()));
        words.join(" ")
    }
}

/// The line of a user in the file: `user bob on #… ~* +@all`.
pub fn line(user: &User) -> String {
    user.line_with(&user.rules.join(" "))
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("enabled", &self.login.enabled)
            .field("nopass", &self.login.nopass)
            .field("passwords", &self.login.passwords.len())
            .field("rules", &self.rules)
            .field("canonical", &self.canonical)
            .finish()
    }
}

/// The words of an `ACL SETUSER`, in their order. `Debug` shows no hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Rules(Vec<String>);

impl Rules {
    /// The words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.words().map(|word| if is_secret(word) { "[redacted]" } else { word });
        f.debug_list().entries(shown).finish()
    }
}

/// Whether a word is a password or a hash, or was meant to be one.
pub(crate) fn is_secret(word: &str) -> bool {
    word.trim_start_matches('(').starts_with(['#', '>', '<', '!'])
}
