//! What somebody declared of a user, made into rules that can hurt nobody else.

use secrecy::SecretString;
use snafu::{Snafu, ensure};

use super::password::{hash_of, is_hash};
use super::selectors::has_open_selector;
use super::user::{Login, User};
use super::{RESERVED_PREFIX, password};

/// A user as somebody declared it. There is no `Debug`: the permissions may hold a password.
#[derive(Clone, Default)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// Whether it may log in.
    pub enabled: bool,
    /// Its passwords, or `#` and their hashes.
    pub passwords: Vec<SecretString>,
    /// Any password will do; those above do not count.
    pub nopass: bool,
    /// It has those passwords above and no others: without any, nobody logs in, whatever `nopass` says.
    pub resetpass: bool,
    /// Commands, subcommands (`config|get`) and categories (`@read`) it may use.
    pub allow: Vec<String>,
    /// Those of the above it may not use.
    pub deny: Vec<String>,
    /// Patterns of keys it may read and write.
    pub read_write: Vec<String>,
    /// Patterns of keys it may read.
    pub read_only: Vec<String>,
    /// Patterns of keys it may write.
    pub write_only: Vec<String>,
    /// Patterns of channels.
    pub channels: Vec<String>,
    /// Anything else, in the server's own words; it comes last.
    pub permissions: String,
}

/// A declaration that cannot be a line of the file, because it would not be one line of one user.
#[derive(Debug, Clone, PartialEq, Eq, Snafu)]
pub enum AclError {
    /// The name is empty, or holds what separates words or lines.
    #[snafu(display("failed to use the user name {name:?}: it must be one word without white space"))]
    Name {
        /// The name.
        name: String,
    },
    /// The name is kept for the operator's own users.
    #[snafu(display("failed to use the user name {name:?}: names that begin with '_' are reserved"))]
    ReservedName {
        /// The name.
        name: String,
    },
    /// A password is empty.
    #[snafu(display("failed to build user {name}: a password is empty"))]
    EmptyPassword {
        /// The user.
        name: String,
    },
    /// An item of a list is empty, or holds what separates words or lines.
    #[snafu(display("failed to build user {name}: {list} holds {word:?}, which is not one word"))]
    Word {
        /// The user.
        name: String,
        /// Which list.
        list: &'static str,
        /// The item.
        word: String,
    },
    /// A character no rule needs.
    #[snafu(display("failed to build user {name}: permissions hold a control character"))]
    ControlCharacter {
        /// The user.
        name: String,
    },
    /// `reset` would undo what the other fields say.
    #[snafu(display(
        "failed to build user {name}: permissions hold 'reset', which would undo the other fields"
    ))]
    Reset {
        /// The user.
        name: String,
    },
    /// A selector without an end, on which servers crash.
    #[snafu(display(
        "failed to build user {name}: permissions hold a selector that is not closed: write ')' at its end"
    ))]
    OpenSelector {
        /// The user.
        name: String,
    },
}

impl User {
    /// A user from what was declared of it.
    pub fn declared(declaration: &Declaration) -> Result<Self, AclError> {
        let name = &declaration.name;
        ensure!(is_word(name), NameSnafu { name });
        ensure!(!name.starts_with(RESERVED_PREFIX), ReservedNameSnafu { name });
        let mut user = Self {
            name: name.clone(),
            login: declared_login(declaration)?,
            rules: Vec::new(),
            canonical: None,
        };
        // Servers start a user without channels unless they are told otherwise; those given here are all it has.
        let channels = if declaration.channels.is_empty() { None } else { Some("resetchannels".to_owned()) };
        for (list, prefix, items) in [
            ("keys.readWrite", "~", &declaration.read_write),
            ("keys.readOnly", "%R~", &declaration.read_only),
            ("keys.writeOnly", "%W~", &declaration.write_only),
        ] {
            user.add(list, prefix, items)?;
        }
        user.rules.extend(channels);
        for (list, prefix, items) in [
            ("channels.patterns", "&", &declaration.channels),
            ("commands.allow", "+", &declaration.allow),
            ("commands.deny", "-", &declaration.deny),
        ] {
            user.add(list, prefix, items)?;
        }
        user.add_permissions(&declaration.permissions)?;
        Ok(user)
    }

    fn add(&mut self, list: &'static str, prefix: &str, items: &[String]) -> Result<(), AclError> {
        for word in items {
            ensure!(is_word(word), WordSnafu { name: &self.name, list, word });
            self.rules.push(format!("{prefix}{word}"));
        }
        Ok(())
    }

    /// Takes the words one by one. Those about logging in are understood here, so that no password stays in the rules;
    /// within parentheses, which begin rules for other keys, there are none.
    fn add_permissions(&mut self, permissions: &str) -> Result<(), AclError> {
        let name = &self.name;
        ensure!(!has_open_selector(permissions.split_ascii_whitespace()), OpenSelectorSnafu { name });
        let mut inside = false;
        for word in permissions.split_ascii_whitespace() {
            ensure!(!word.chars().any(char::is_control), ControlCharacterSnafu { name: &self.name });
            inside |= word.starts_with('(');
            if inside || !self.take_login(word)? {
                self.rules.push(word.to_owned());
            }
            inside &= !word.ends_with(')');
        }
        Ok(())
    }

    /// Whether the word was about logging in.
    fn take_login(&mut self, word: &str) -> Result<bool, AclError> {
        let login = &mut self.login;
        match word.to_ascii_lowercase().as_str() {
            "on" => login.enabled = true,
            "off" => login.enabled = false,
            "nopass" => *login = Login { enabled: login.enabled, nopass: true, passwords: Vec::new() },
            "resetpass" => *login = Login { enabled: login.enabled, ..Login::default() },
            "reset" => return ResetSnafu { name: &self.name }.fail(),
            _ if is_hash(word) => login.add(hash_of(&word.into())),
            _ => match word.split_at_checked(1) {
                Some((">", password)) => login.add(password::sha256(password)),
                Some(("<", password)) => login.remove(&password::sha256(password)),
                Some(("!", hash)) => login.remove(&hash.to_ascii_lowercase()),
                _ => return Ok(false),
            },
        }
        Ok(true)
    }
}

fn declared_login(declaration: &Declaration) -> Result<Login, AclError> {
    let mut login = Login { enabled: declaration.enabled, ..Login::default() };
    // Who asks for no password and for any password gets the one of the two that lets nobody in.
    login.nopass = declaration.nopass && !declaration.resetpass;
    if declaration.nopass {
        return Ok(login);
    }
    for password in &declaration.passwords {
        let empty = secrecy::ExposeSecret::expose_secret(password).is_empty();
        ensure!(!empty, EmptyPasswordSnafu { name: &declaration.name });
        login.add(hash_of(password));
    }
    Ok(login)
}

/// One word of one line, as the server splits lines; it also takes other control characters for nothing special, we
/// do not.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|character| character.is_whitespace() || character.is_control())
}

#[cfg(test)]
mod tests;
