//! Looking at the server, over its socket in the pod.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proto::heartbeat::{Event, Server, ServerState, UsersFile};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use valkey::client::Section;
use valkey::conf::is_secret;
use valkey::{Connection, Deadlines, Info, Target};

use super::health::Figures;
use super::sight::{Found, Sight};
use super::takeover::Death;
use crate::args::SidecarArgs;
use crate::gate::conf::BaseConf;
use crate::run_directory::RunDirectory;
use crate::secrets::{self, AGENT};
use crate::{chain, files, say, users};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// After one that showed something new: changes come together, and whoever takes the place of a server that dies needs the last of them.
const SOON: Duration = Duration::from_millis(100);
/// A look that took long is followed by a longer pause: a server with a thousand peers has a long table.
const SHARE: u32 = 50;
/// Users and directives are looked at now and then: nobody but the operator changes them, and the lists are long.
const THOROUGH_EVERY: Duration = Duration::from_secs(10);
/// For each step of a look.
const PATIENCE: Deadlines =
    Deadlines { connect: Duration::from_secs(1), command: Duration::from_millis(1500) };
/// What replicas and primaries are told apart by, and whether there is anything to lose.
const SECTIONS: [Section; 4] =
    [Section::Server, Section::Replication, Section::Persistence, Section::Keyspace];
/// How long somebody who connected waits to see whether the server is just ending, and how often.
const CLOSING: Duration = Duration::from_millis(50);
const CLOSINGS: u32 = 10;
/// The password that the server shows its primary.
const PRIMARYAUTH: &str = "primaryauth";

/// Where to look.
#[derive(Clone)]
pub(super) struct Place {
    run: PathBuf,
    secrets: PathBuf,
    base: PathBuf,
}

impl Place {
    pub(super) fn of(args: &SidecarArgs) -> Self {
        let places = &args.places;
        Self { run: places.run.clone(), secrets: places.secrets.clone(), base: args.base.clone() }
    }

    /// The configuration, without what only the pod knows.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// The same, read.
    pub(super) fn read_base(&self) -> io::Result<Option<BaseConf>> {
        Ok(files::read_if_there(&self.base)?.map(BaseConf::new))
    }

    /// Whether the server was started with a doubt that the probe clears up.
    pub(super) fn holds_writes(&self) -> bool {
        RunDirectory::new(&self.run).writes_held().exists()
    }

    /// Whether an agent beside this server said that it stops the server's writes in time.
    pub(super) fn leads_at_a_word(&self) -> bool {
        RunDirectory::new(&self.run).leads_at_a_word().exists()
    }

    /// Leave word for the agent after us, or take it back.
    pub(super) fn note_that_it_leads_at_a_word(&self, does: bool) -> io::Result<()> {
        let path = RunDirectory::new(&self.run).leads_at_a_word();
        if does {
            files::replace(&path, 0o600, &mut io::empty())
        } else {
            files::remove_if_there(&path).map(drop)
        }
    }

    /// The server, for whoever has so much patience.
    pub(super) fn server(&self, patience: Deadlines) -> Result<Target, secrets::PasswordError> {
        let password = secrets::password(&self.secrets, AGENT)?;
        let socket = RunDirectory::new(&self.run).socket();
        Ok(Target::unix(socket).with_credentials(Some(AGENT), password).with_deadlines(patience))
    }
}

/// Who is told what happens.
pub(super) struct Told {
    /// The operator.
    pub(super) operator: mpsc::Sender<Event>,
    /// Those who could take over, if they are to be told.
    pub(super) successors: Option<mpsc::Sender<Death>>,
}

/// What is not asked for with every look.
#[derive(Clone, Default)]
struct Rarely {
    users: Vec<String>,
    config: BTreeMap<String, String>,
    primary_password: Option<String>,
}

/// An open connection, and what was asked over it when.
struct Acquaintance {
    connection: Connection,
    rarely: Rarely,
    asked: Instant,
}

/// Look again and again.
pub(super) async fn go_on(
    place: Place,
    seen: watch::Sender<Sight>,
    told: Told,
    stirred: Arc<Notify>,
    figures: Arc<Figures>,
) {
    let mut known = None;
    // A server that hangs before it ends was seen for the last time before that.
    let mut last_up = seen.borrow().report.clone();
    let mut complained = String::new();
    loop {
        let begun = Instant::now();
        let (found, complaint) = look(&place, &mut known).await;
        figures.looked(matches!(found, Found::Answers(_)));
        if complaint != complained && !complaint.is_empty() {
            say(&complaint);
        }
        complained = complaint;
        let next = seen.borrow().then(found, users_file(&place));
        let usual = if next.is_some() { SOON } else { EVERY };
        if let Some((sight, event)) = next {
            let report = sight.report.clone();
            seen.send_replace(sight);
            if let Some(event) = event {
                // Whoever can do something about it comes first.
                if let (Event::ServerDied { run_id }, ServerState::Up(last), ServerState::Down) =
                    (&event, &last_up.server, &report.server)
                {
                    bequeath(last, run_id, &told, &figures);
                }
                // One that finds no room is seen in the next report.
                if told.operator.try_send(event).is_ok() {
                    figures.happened();
                }
            }
            if matches!(report.server, ServerState::Up(_)) {
                last_up = report;
            }
        }
        let pause = usual.max(begun.elapsed() * SHARE).min(THOROUGH_EVERY);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stirred.notified() => {}
        }
    }
}

/// Say who could take over from a server that died.
fn bequeath(last: &Server, run_id: &str, told: &Told, figures: &Figures) {
    let Some(successors) = &told.successors else { return };
    match Death::of(last, run_id).map(|death| successors.try_send(death)) {
        Some(Ok(())) => figures.succession_begins(),
        Some(Err(_)) => say("the server died again while somebody takes its place"),
        None => say(
            "the server died, and nobody takes its place: it led no slot or had no replica when it was last seen",
        ),
    }
}

/// What is found, and what is wrong with the looking itself.
async fn look(place: &Place, known: &mut Option<Acquaintance>) -> (Found, String) {
    match ask(place, known).await {
        // It answers these questions while it reads, and no other.
        Ok(server) if Info::parse(&server.info).loading() => (Found::Loading, String::new()),
        Ok(server) => (Found::Answers(Box::new(server)), String::new()),
        Err(error) => {
            // A connection over which something went wrong is not used again.
            *known = None;
            let found = match &error {
                Unanswered::Server(valkey::Error::Loading { .. }) => return (Found::Loading, String::new()),
                Unanswered::Server(error) if error.is_auth() => Found::Locked,
                _ if !is_there(place).await => return (Found::Nobody, String::new()),
                Unanswered::Password(_) => Found::Locked,
                Unanswered::Server(_) => Found::NoAnswer,
            };
            (found, error.words())
        }
    }
}

enum Unanswered {
    Password(secrets::PasswordError),
    Server(valkey::Error),
}

impl Unanswered {
    fn words(&self) -> String {
        match self {
            Self::Password(error) => chain(error),
            Self::Server(error) => chain(error),
        }
    }
}

impl From<valkey::Error> for Unanswered {
    fn from(error: valkey::Error) -> Self {
        Self::Server(error)
    }
}

async fn ask(place: &Place, known: &mut Option<Acquaintance>) -> Result<Server, Unanswered> {
    let acquaintance = match known {
        Some(acquaintance) => acquaintance,
        None => known.insert(meet(place).await?),
    };
    let connection = &acquaintance.connection;
    let (info, cluster_info, cluster_nodes) = tokio::try_join!(
        connection.info_text(&SECTIONS),
        connection.cluster_info_text(),
        connection.cluster_nodes_text()
    )?;
    if acquaintance.asked.elapsed() >= THOROUGH_EVERY {
        acquaintance.rarely = ask_rarely(place, connection).await?;
        acquaintance.asked = Instant::now();
    }
    let Rarely { users, config, primary_password } = acquaintance.rarely.clone();
    Ok(Server { info, cluster_info, cluster_nodes, users, config, primary_password })
}

async fn meet(place: &Place) -> Result<Acquaintance, Unanswered> {
    let target = place.server(PATIENCE).map_err(Unanswered::Password)?;
    let connection = Connection::open(&target).await?;
    let rarely = ask_rarely(place, &connection).await?;
    Ok(Acquaintance { connection, rarely, asked: Instant::now() })
}

async fn ask_rarely(place: &Place, connection: &Connection) -> Result<Rarely, valkey::Error> {
    // Without the file there is nothing to compare with, and the operator asks for itself.
    let base = place.read_base().ok().flatten();
    let named: Vec<&str> =
        base.iter().flat_map(BaseConf::names).filter(|name| !is_secret(name)).chain([PRIMARYAUTH]).collect();
    let (users, mut config) = tokio::try_join!(connection.acl_lines(), connection.config_get(&named))?;
    let primary_password = config.remove(PRIMARYAUTH).map(|password| users::fingerprint(&password));
    Ok(Rarely { users, config, primary_password })
}

/// Whether anybody listens on the server's socket. If the question has no answer, somebody may.
async fn is_there(place: &Place) -> bool {
    let socket = RunDirectory::new(&place.run).socket();
    for _ in 0..CLOSINGS {
        let mut stream = match UnixStream::connect(&socket).await {
            Ok(stream) => stream,
            Err(error) => return !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused),
        };
        // When a process ends, what it has open is closed one after the other, and we may have come in between. A server closes
        // nobody without a word.
        let mut ignored = [0; 64];
        let closed = tokio::time::timeout(CLOSING, stream.read(&mut ignored)).await;
        if !matches!(closed, Ok(Ok(0) | Err(_))) {
            return true;
        }
    }
    true
}

/// What the probe noted of the users file.
fn users_file(place: &Place) -> UsersFile {
    let directory = RunDirectory::new(&place.run);
    let read = |path: PathBuf| files::read_if_there(&path).ok().flatten();
    let refused = read(directory.users_refused());
    UsersFile {
        loaded: read(directory.users_loaded()),
        refused: refused.and_then(|note| note.lines().nth(1).map(str::to_owned)),
    }
}
