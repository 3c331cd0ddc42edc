//! Users of a server as data: who they are, the file they are loaded from, and what a server still lacks of them.
//!
//! A server writes the rules of its users in a form of its own. So whether a user is as wanted is decided by asking one:
//! [`Connection::acl_canonical`](crate::Connection::acl_canonical) tells how it would list a user, [`User::with_canonical`]
//! keeps that, and [`difference`] compares text. Passwords are hashes everywhere here, and `Debug` does not show even
//! these.

mod declaration;
mod difference;
mod file;
mod listed;
mod password;
mod selectors;
mod system;
mod user;

pub use declaration::{AclError, Declaration};
pub use difference::{AclChange, difference};
pub use file::{AclFile, loaded_revision, render_file};
pub use listed::{Listed, ListedUser};
pub use password::{PASSWORD_MAX, PasswordFlaw, flaw_of_password, hash_password, is_hash};
pub use selectors::has_open_selector;
pub use system::SystemUser;
pub(crate) use user::is_secret;
pub use user::{Rules, User, line};

/// The user nobody logs in as: its only "password" names the file a server has loaded.
pub const REVISION_USER: &str = "_revision";

/// The user that stands in for another while a server is asked about its rules.
pub const SCRATCH_USER: &str = "_check";

/// The user of connections that did not log in.
pub const DEFAULT_USER: &str = "default";

/// What names of users of the operator itself begin with.
pub const RESERVED_PREFIX: char = '_';
