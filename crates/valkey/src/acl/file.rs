//! The file a server loads its users from, which says by itself which one it is.

use std::collections::BTreeMap;
use std::fmt;

use super::listed::Listed;
use super::password::sha256;
use super::user::{User, line};
use super::{RESERVED_PREFIX, REVISION_USER};

/// A file of users. `Debug` shows no line of it.
#[derive(Clone, PartialEq, Eq)]
pub struct AclFile {
    /// What is in it: names, hashes and rules, no password. It belongs in a Secret all the same.
    pub text: String,
    /// Which file it is, as [`loaded_revision`] tells it once a server has loaded it.
    pub revision: String,
}

impl fmt::Debug for AclFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AclFile").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// The file of these users. The same users in another order give the same file; of two with one name, which no server
/// would load, the later one counts.
///
/// The first line is a user that nobody can be, disabled and without rights, whose one "password" is the hash of the
/// rest: whoever lists the users of a server sees which file it has loaded.
pub fn render_file(users: &[User]) -> AclFile {
    let lines: BTreeMap<(bool, &str), String> = users
        .iter()
        .map(|user| ((!user.name.starts_with(RESERVED_PREFIX), user.name.as_str()), line(user) + "\n"))
        .collect();
    let rest: String = lines.into_values().collect();
    let revision = sha256(&rest);
    AclFile { text: format!("user {REVISION_USER} off #{revision} resetchannels -@all\n{rest}"), revision }
}

/// The file a server has loaded; `None` where it has loaded none of ours.
pub fn loaded_revision(listed: &Listed) -> Option<String> {
    let user = listed.get(REVISION_USER)?;
    // Two can only be somebody else's work.
    if user.passwords.len() == 1 { user.passwords.first().cloned() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Declaration, SystemUser, difference};

    fn user(name: &str) -> User {
        let declaration = Declaration { name: name.to_owned(), enabled: true, ..Declaration::default() };
        User::declared(&declaration).expect("should be a user")
    }

    #[test]
    fn the_file_names_itself() {
        let users =
            [user("zoe"), User::system(SystemUser::Replication, &["r".into(), "s".into()]), user("Bob")];
        let file = render_file(&users);
        let lines: Vec<String> = file.text.lines().map(str::to_owned).collect();
        assert_eq!(loaded_revision(&Listed::parse(&lines)), Some(file.revision.clone()));
        let names: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(names, ["_revision", "_replication", "Bob", "zoe"]);
        assert_eq!(difference(&users, &Listed::parse(&lines)), []);

        let [zoe, replication, bob] = users;
        assert_eq!(
            render_file(&[bob.clone(), replication.clone(), zoe.clone()]),
            file,
            "the order does not matter"
        );
        assert_eq!(render_file(&[bob.clone(), zoe.clone(), replication, user("zoe")]), file);
        assert_ne!(render_file(&[bob, zoe]).revision, file.revision);
        assert_eq!(loaded_revision(&Listed::default()), None);
        assert!(!format!("{file:?}").contains("zoe"));
    }
}
