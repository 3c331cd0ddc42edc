//! Passwords of the system users, as the pod has them mounted.

use std::path::{Path, PathBuf};
use std::{fs, io};

use secrecy::SecretString;
use snafu::{ResultExt as _, Snafu};

/// Who we are on every server.
pub(crate) const AGENT: &str = "_agent";
/// Who a replica is on its primary.
pub(crate) const REPLICATION: &str = "_replication";

/// A password that is not there.
#[derive(Debug, Snafu)]
#[snafu(display("failed to read the password of {user} from {}", path.display()))]
pub(crate) struct PasswordError {
    user: String,
    path: PathBuf,
    source: io::Error,
}

/// The password of a user. Only the end of the last line is no part of it: editors like to add one.
pub(crate) fn password(directory: &Path, user: &str) -> Result<SecretString, PasswordError> {
    let path = directory.join(user);
    let text = fs::read_to_string(&path).context(PasswordSnafu { user, path })?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n'])))
}
