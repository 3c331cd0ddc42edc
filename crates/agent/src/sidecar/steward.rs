//! Doing at our server what the operator orders: setting directives, and having the users file loaded. What it does is in our log, by
//! the names of directives; their values never are.

use std::path::PathBuf;
use std::time::Duration;

use proto::agent::{Directive, LoadUsersReply, Loading, SetDirectivesReply, SetDirectivesRequest, Setting};
use snafu::{Snafu, ensure};
use tokio::sync::Mutex;
use valkey::{Connection, Deadlines};

use super::directives::allowed;
use super::look::Place;
use crate::args::SidecarArgs;
use crate::hold::{Wanted, decides_about_writes};
use crate::run_directory::RunDirectory;
use crate::secrets::PasswordError;
use crate::users_file::{self, Loaded};
use crate::{chain, say};

/// For each step: together they are over before the operator gives up.
const PATIENCE: Deadlines =
    Deadlines { connect: Duration::from_millis(500), command: Duration::from_secs(2) };
/// Words that are told are cut after so many characters: what servers say is shorter.
const WORDS: usize = 1024;

/// Why the server could not be asked.
#[derive(Debug, Snafu)]
enum Error {
    #[snafu(transparent)]
    Password { source: PasswordError },
    #[snafu(transparent)]
    Server { source: valkey::Error },
    #[snafu(transparent)]
    Users { source: users_file::Error },
    #[snafu(display(
        "failed to set directives: the server takes no write just now, and whoever stopped that must let it go"
    ))]
    Stopped,
}

/// Our server, as the operator orders it.
pub(super) struct Steward {
    place: Place,
    run: PathBuf,
    users: PathBuf,
    /// One order at a time: notes about the users file are written by one of us.
    turn: Mutex<()>,
}

impl Steward {
    pub(super) fn of(args: &SidecarArgs) -> Self {
        let places = &args.places;
        Self {
            place: Place::of(args),
            run: places.run.clone(),
            users: places.users.clone(),
            turn: Mutex::new(()),
        }
    }

    /// Set directives, all or none of them.
    pub(super) async fn set(&self, request: &SetDirectivesRequest) -> SetDirectivesReply {
        let directives = match allowed(&request.directives) {
            Ok(directives) => directives,
            Err(why) => {
                say(&format!("the operator was refused to set directives: {why}"));
                return set(Setting::NotAllowed, &why.to_string());
            }
        };
        let _turn = self.turn.lock().await;
        let (reply, ended) = match self.try_to_set(&directives).await {
            Ok(()) => (set(Setting::Taken, ""), "taken"),
            // Being busy, or wanting other rights, says nothing about the directives.
            Err(Error::Server { source: valkey::Error::Server { message, .. } }) => {
                (set(Setting::Refused, &message), "the server refused")
            }
            Err(error) => (set(Setting::Failed, &chain(&error)), "failed"),
        };
        say(&format!("told by the operator to set {}: {ended}", names(&request.directives)));
        reply
    }

    async fn try_to_set(&self, directives: &[(&str, &str)]) -> Result<(), Error> {
        let connection = self.connect().await?;
        // Another one may lead, and would throw away what this one acknowledges.
        let decides = directives.iter().any(|(name, _)| decides_about_writes(name));
        ensure!(!decides || !Wanted::refused_now(&connection).await?, StoppedSnafu);
        Ok(connection.config_set(directives).await?)
    }

    /// Have the users file loaded.
    pub(super) async fn load_users(&self) -> LoadUsersReply {
        let _turn = self.turn.lock().await;
        let (reply, ended) = match self.try_to_load_users().await {
            Ok(Loaded::NoFile) => (loaded(Loading::NoFile, ""), "there is none here"),
            Ok(Loaded::Before) => (loaded(Loading::Already, ""), "it was loaded before"),
            Ok(Loaded::Now) => (loaded(Loading::Done, ""), "loaded"),
            Ok(Loaded::Refused(reason) | Loaded::RefusedBefore(reason)) => {
                (loaded(Loading::Refused, &reason), "the server refused")
            }
            Err(error) => (loaded(Loading::Failed, &chain(&error)), "failed"),
        };
        say(&format!("told by the operator to have the users file loaded: {ended}"));
        reply
    }

    async fn try_to_load_users(&self) -> Result<Loaded, Error> {
        let connection = self.connect().await?;
        Ok(users_file::load(&connection, &self.users, &RunDirectory::new(&self.run)).await?)
    }

    async fn connect(&self) -> Result<Connection, Error> {
        Ok(Connection::open(&self.place.server(PATIENCE)?).await?)
    }
}

fn names(directives: &[Directive]) -> String {
    directives.iter().map(|directive| directive.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn set(setting: Setting, words: &str) -> SetDirectivesReply {
    SetDirectivesReply { setting: setting.into(), words: cut(words) }
}

fn loaded(loading: Loading, words: &str) -> LoadUsersReply {
    LoadUsersReply { loading: loading.into(), words: cut(words) }
}

fn cut(words: &str) -> String {
    words.chars().take(WORDS).collect()
}
