//! What ACL LIST says of the users a server has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The users of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// By name.
    pub users: BTreeMap<String, ListedUser>,
    /// How many lines could not be read.
    pub unreadable: usize,
}

/// A user as a server lists it. `Debug` shows no hash.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ListedUser {
    /// Whether it may log in.
    pub enabled: bool,
    /// Whether any password will do.
    pub nopass: bool,
    /// The hashes of its passwords.
    pub passwords: BTreeSet<String>,
    /// What it may do, in the server's words and order.
    pub rules: String,
}

impl Listed {
    /// Reads the lines of a reply.
    pub fn parse(lines: &[String]) -> Self {
        let mut listed = Self::default();
        for line in lines {
            match ListedUser::parse(line) {
                Some((name, user)) => drop(listed.users.insert(name, user)),
                None => listed.unreadable += 1,
            }
        }
        listed
    }

    /// A user by its name.
    pub fn get(&self, name: &str) -> Option<&ListedUser> {
        self.users.get(name)
    }
}

impl ListedUser {
    /// Reads `user <name> …`. How a user logs in comes first; what follows is text to compare.
    pub(crate) fn parse(line: &str) -> Option<(String, Self)> {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        if words.next()? != "user" {
            return None;
        }
        let name = words.next()?.to_owned();
        let mut user = Self::default();
        let mut rules = Vec::new();
        for word in words {
            match word {
                _ if !rules.is_empty() => rules.push(word),
                "on" => user.enabled = true,
                "off" => user.enabled = false,
                "nopass" => user.nopass = true,
                // Only some releases write these, and none lets them decide who may do what.
                "sanitize-payload" | "skip-sanitize-payload" => {}
                _ => match word.strip_prefix('#') {
                    Some(hash) => drop(user.passwords.insert(hash.to_owned())),
                    None => rules.push(word),
                },
            }
        }
        user.rules = rules.join(" ");
        Some((name, user))
    }
}

impl fmt::Debug for ListedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedUser")
            .field("enabled", &self.enabled)
            .field("nopass", &self.nopass)
            .field("passwords", &self.passwords.len())
            .field("rules", &self.rules)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_releases_list_the_same_user() {
        let old =
            "user bob on sanitize-payload #aa #bb ~* resetchannels -@all +get (~x* resetchannels -@all +set)";
        let new = "user bob on #bb #aa ~* resetchannels -@all +get (~x* resetchannels -@all +set)";
        let listed = |line: &str| Listed::parse(&[line.to_owned()]);
        assert_eq!(listed(old), listed(new));
        let bob = listed(new).get("bob").cloned().expect("should be listed");
        assert!(bob.enabled && !bob.nopass && bob.passwords.len() == 2);
        assert_eq!(bob.rules, "~* resetchannels -@all +get (~x* resetchannels -@all +set)");
        assert!(!format!("{bob:?}").contains("aa"), "{bob:?}");
        let open = listed("user default on nopass ~* &* +@all");
        assert!(open.get("default").is_some_and(|user| user.enabled && user.nopass));
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let lines = ["", "user", "bob on", "user bob"].map(str::to_owned);
        let listed = Listed::parse(&lines);
        assert_eq!((listed.users.len(), listed.unreadable), (1, 3));
        assert_eq!(listed.get("bob"), Some(&ListedUser::default()));
    }

    proptest! {
        #[test]
        fn any_lines_are_survived(lines in prop::collection::vec("(user|bob|on|#|~|\\(|\\)| |.){0,20}", 0..6)) {
            let listed = Listed::parse(&lines);
            prop_assert!(listed.users.len() + listed.unreadable <= lines.len());
        }
    }
}
