//! Having the server load its users file, and noting what became of it. The probe does so whenever it runs, and the sidecar when the
//! operator tells it to; the notes are how each knows what the other did.

use std::io;
use std::path::{Path, PathBuf};

use snafu::{ResultExt as _, Snafu};
use valkey::Connection;

use crate::run_directory::RunDirectory;
use crate::{files, users};

/// What became of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// There is none.
    NoFile,
    /// The server has loaded just this one before.
    Before,
    /// It has now.
    Now,
    /// It refused just this one before, in these words.
    RefusedBefore(String),
    /// It does now.
    Refused(String),
}

/// Why that is not known.
#[derive(Debug, Snafu)]
pub(crate) enum Error {
    /// A file cannot be read or written.
    #[snafu(display("failed to compare {} with what was loaded", users.display()))]
    Compare {
        /// The users file.
        users: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server does not answer as it should.
    #[snafu(display("failed to load {}", users.display()))]
    Load {
        /// The users file.
        users: PathBuf,
        /// How it answered.
        source: valkey::Error,
    },
}

/// Has the server load the users file if it is another one than it loaded or refused last.
pub(crate) async fn load(
    connection: &Connection,
    users: &Path,
    directory: &RunDirectory<'_>,
) -> Result<Loaded, Error> {
    let compared = CompareSnafu { users };
    let Some(text) = files::read_if_there(users).context(compared)? else { return Ok(Loaded::NoFile) };
    let fingerprint = users::fingerprint(&text);
    let loaded = files::read_if_there(&directory.users_loaded()).context(compared)?;
    if loaded.as_ref() == Some(&fingerprint) {
        return Ok(Loaded::Before);
    }
    // What the server refused once it refuses again, until the file is another one.
    let refused = files::read_if_there(&directory.users_refused()).context(compared)?.unwrap_or_default();
    if let Some((of, reason)) = refused.split_once('\n')
        && of == fingerprint
    {
        return Ok(Loaded::RefusedBefore(reason.trim_end().to_owned()));
    }
    let note = |note: PathBuf, content: &str| files::replace(&note, 0o600, &mut content.as_bytes());
    let reason = match users::line_with_open_selector(&text) {
        // The server would not refuse it but crash.
        Some(line) => format!("a selector in line {line} is not closed"),
        None => match connection.acl_load().await {
            Ok(()) => {
                note(directory.users_loaded(), &fingerprint).context(compared)?;
                return Ok(Loaded::Now);
            }
            Err(valkey::Error::Server { message, .. }) => message,
            Err(error) => return Err(error).context(LoadSnafu { users }),
        },
    };
    note(directory.users_refused(), &format!("{fingerprint}\n{reason}\n")).context(compared)?;
    Ok(Loaded::Refused(reason))
}
