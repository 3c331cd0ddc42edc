//! Has our server refuse writes, and take them again.

use snafu::{ResultExt as _, Snafu};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use valkey::{Connection, Deadlines};

use super::super::look::Place;
use crate::hold::Wanted;
use crate::secrets::PasswordError;

/// For each step: a word that is over does not wait.
const PATIENCE: Deadlines =
    Deadlines { connect: Duration::from_millis(200), command: Duration::from_millis(300) };

/// Why the server was not told.
#[derive(Debug, Snafu)]
pub(super) enum Error {
    #[snafu(transparent)]
    Password { source: PasswordError },
    #[snafu(display("failed to tell the server"))]
    Tell { source: valkey::Error },
    #[snafu(display("failed to leave word of it in the run directory"))]
    Note { source: io::Error },
    #[snafu(display("failed to read {}", path.display()))]
    Read { path: PathBuf, source: io::Error },
}

/// The writes of our server.
pub(super) struct Writes(Place);

impl Writes {
    pub(super) const fn new(place: Place) -> Self {
        Self(place)
    }

    /// Whether somebody before us stopped them, and not for a reason that the probe clears up.
    pub(super) async fn are_stopped(&self) -> Result<bool, Error> {
        let connection = self.connect().await?;
        let refused = Wanted::refused_now(&connection).await.context(TellSnafu)?;
        Ok(refused && !self.0.holds_writes())
    }

    /// Whether somebody before us said that they are stopped in time.
    pub(super) fn are_leased(&self) -> bool {
        self.0.leads_at_a_word()
    }

    /// For whoever is here after us: whether others count on it that they are stopped in time.
    pub(super) fn note_lease(&self, leased: bool) -> Result<(), Error> {
        self.0.note_that_it_leads_at_a_word(leased).context(NoteSnafu)
    }

    /// Nothing is acknowledged any more. What is refused is refused in the server's own words.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        self.tell(&self.wanted()?.refusing()).await
    }

    /// As the configuration wants it; not if the server was started with a doubt that the probe has to clear up.
    pub(super) async fn let_go(&self) -> Result<(), Error> {
        if self.0.holds_writes() {
            return Ok(());
        }
        self.tell(&self.wanted()?.directives()).await
    }

    fn wanted(&self) -> Result<Wanted, Error> {
        let path = self.0.base();
        let base = self.0.read_base().context(ReadSnafu { path })?;
        Ok(base.map(|base| base.wanted_replicas()).unwrap_or_default())
    }

    async fn tell(&self, directives: &[(&'static str, String); 2]) -> Result<(), Error> {
        let directives: Vec<(&str, &str)> =
            directives.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.connect().await?.config_set(&directives).await.context(TellSnafu)
    }

    async fn connect(&self) -> Result<Connection, Error> {
        Connection::open(&self.0.server(PATIENCE)?).await.context(TellSnafu)
    }
}
