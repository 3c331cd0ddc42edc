//! What a server still lacks, or has too much, of the wanted users.

use super::listed::{Listed, ListedUser};
use super::user::{Rules, User};
use super::{DEFAULT_USER, REVISION_USER};

/// One change that brings a server's users in line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclChange {
    /// `ACL SETUSER`: the user is missing or differs.
    Set {
        /// Whom.
        name: String,
        /// The whole of its rules.
        rules: Rules,
    },
    /// `ACL DELUSER`: nobody wants the user, and its connections end.
    Delete {
        /// Whom.
        name: String,
    },
}

/// The changes that make a server's users the wanted ones: first what is set, in the order given, then what goes. The
/// user `default` is nobody's unless it is wanted, and the one that names the loaded file changes only with the file.
///
/// A user whose rules no server was asked about counts as different unless it is written as the server lists it.
pub fn difference(wanted: &[User], listed: &Listed) -> Vec<AclChange> {
    let set = wanted
        .iter()
        .filter(|user| listed.get(&user.name).is_none_or(|listed| !user.is(listed)))
        .map(|user| AclChange::Set { name: user.name.clone(), rules: user.set_rules() });
    let unwanted = listed.users.keys().filter(|name| {
        ![DEFAULT_USER, REVISION_USER].contains(&name.as_str())
            && wanted.iter().all(|user| user.name != **name)
    });
    set.chain(unwanted.map(|name| AclChange::Delete { name: name.clone() })).collect()
}

impl User {
    fn is(&self, listed: &ListedUser) -> bool {
        let login = &self.login;
        let same_rules = match &self.canonical {
            Some(rules) => *rules == listed.rules,
            None => self.rules.join(" ") == listed.rules,
        };
        same_rules
            && login.enabled == listed.enabled
            && login.nopass == listed.nopass
            && login.passwords.len() == listed.passwords.len()
            && login.passwords.iter().all(|hash| listed.passwords.contains(hash))
    }
}

#[cfg(test)]
mod tests;
