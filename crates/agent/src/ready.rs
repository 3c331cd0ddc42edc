//! `ready`: the pod's probes. They run every few seconds in every pod, so that they do little: look, have a new users file
//! loaded, and let a server take writes that held them back at its start.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use snafu::{OptionExt as _, ResultExt as _, Snafu, ensure};
use tokio::time::{Instant, sleep, timeout};
use valkey::client::Section;
use valkey::slots::SLOT_COUNT;
use valkey::{Connection, Deadlines, Target};

use crate::args::{Places, ReadyArgs};
use crate::hold::{Cleared, Hold, Wanted};
use crate::run_directory::RunDirectory;
use crate::secrets::{self, AGENT, PasswordError};
use crate::users_file::{self, Loaded};
use crate::{chain, files, say, uptime};

/// For one look: the kubelet's own limit must be longer, or nobody reads what we have to say.
const LIMIT: Duration = Duration::from_secs(2);
/// Between two looks of a run that waits.
const EVERY: Duration = Duration::from_millis(250);
/// For each step of it.
const PATIENCE: Deadlines =
    Deadlines { connect: Duration::from_secs(1), command: Duration::from_millis(1500) };

/// Why the pod is not ready.
#[derive(Debug, Snafu)]
pub(crate) enum Error {
    /// The system has no room for us.
    #[snafu(display("failed to start the runtime"))]
    StartRuntime {
        /// Why.
        source: io::Error,
    },
    /// Our password is not there.
    #[snafu(transparent)]
    Password {
        /// Why.
        source: PasswordError,
    },
    /// The server does not answer as a server that can serve.
    #[snafu(display("not ready"))]
    Server {
        /// How it answered.
        source: valkey::Error,
    },
    /// Clients would be turned away.
    #[snafu(display("not ready: cluster state {state}, {assigned} of {SLOT_COUNT} slots are assigned"))]
    Cluster {
        /// What the server calls its state.
        state: String,
        /// How many slots have an owner.
        assigned: u16,
    },
    /// Somebody may have taken over.
    #[snafu(display(
        "not ready: a replica may have taken over, and no write is taken before these follow: {names}"
    ))]
    Held {
        /// Their identities.
        names: String,
    },
    /// The server tells nothing of its replicas.
    #[snafu(display("not ready: the server does not tell who copies from it"))]
    Role,
    /// A note of ours is not what we wrote.
    #[snafu(display("not ready: failed to understand {}", path.display()))]
    Understand {
        /// Which file.
        path: PathBuf,
    },
    /// A note of ours cannot be read or removed.
    #[snafu(display("failed to read or remove {}", path.display()))]
    Note {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was seen cannot be remembered.
    #[snafu(display("failed to write {}", path.display()))]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing came back in time.
    #[snafu(display("not ready: the server did not answer within {LIMIT:?}"))]
    TooSlow,
}

/// Succeeds if the pod may get clients.
pub(crate) fn run(args: &ReadyArgs) -> Result<(), Error> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context(StartRuntimeSnafu)?;
    runtime.block_on(wait(args))
}

/// Starting this program costs a pod more than all it does: one that waits inside sees the moment, and costs once.
async fn wait(args: &ReadyArgs) -> Result<(), Error> {
    let end = Instant::now() + args.wait;
    loop {
        let result = timeout(LIMIT, check(args)).await.unwrap_or(TooSlowSnafu.fail());
        if result.is_ok() || Instant::now() + EVERY > end {
            return result;
        }
        sleep(EVERY).await;
    }
}

async fn check(args: &ReadyArgs) -> Result<(), Error> {
    let places = &args.places;
    let directory = RunDirectory::new(&places.run);
    let known = directory.knows_all_slots();
    let password = secrets::password(&places.secrets, AGENT)?;
    let target =
        Target::unix(directory.socket()).with_credentials(Some(AGENT), password).with_deadlines(PATIENCE);
    let connection = match Connection::open(&target).await {
        // The server answers, and our password is on its way: the cluster's clients must not suffer for that.
        Err(error @ valkey::Error::WrongPassword { .. }) if known.exists() => {
            say(&chain(&error));
            return Ok(());
        }
        result => result.context(ServerSnafu)?,
    };
    // Before the users: those of an older operator would not let us.
    let held = end_hold(&connection, &directory, args.replica_wait).await;
    // Before anything that may fail: also a cluster that is not formed yet, or not well, gets its users.
    load_users(&connection, places, &directory).await;
    connection.ping().await.context(ServerSnafu)?;
    held?;
    if known.exists() {
        return Ok(());
    }
    let info = connection.cluster_info().await.context(ServerSnafu)?;
    let state = info.get("cluster_state").unwrap_or("unknown");
    let assigned: u16 = info.number("cluster_slots_assigned").unwrap_or_default();
    ensure!(state == "ok" && assigned == SLOT_COUNT, ClusterSnafu { state, assigned });
    // Once is enough: a server that is cut off later still knows where to send its clients.
    files::replace(&known, 0o600, &mut io::empty()).context(WriteSnafu { path: known })
}

/// Has a server that holds writes back take them again, once nobody else can have taken over.
async fn end_hold(
    connection: &Connection,
    directory: &RunDirectory<'_>,
    limit: Duration,
) -> Result<(), Error> {
    let path = directory.writes_held();
    let Some(note) = files::read_if_there(&path).context(NoteSnafu { path: &path })? else { return Ok(()) };
    let hold = Hold::parse(&note);
    let wanted = hold.as_ref().map_or_else(Wanted::default, |hold| hold.wanted);
    // Before anything that may fail: whatever else is wrong, it does not last for ever.
    let cleared = if since_it_answers(directory) >= limit {
        Cleared::Overdue
    } else {
        look_for_replicas(connection, &hold.context(UnderstandSnafu { path: &path })?).await?
    };
    let directives = wanted.directives();
    let directives: Vec<(&str, &str)> =
        directives.iter().map(|(name, value)| (*name, value.as_str())).collect();
    connection.config_set(&directives).await.context(ServerSnafu)?;
    // After the command: cut off in between, it is given once more.
    files::remove_if_there(&path).context(NoteSnafu { path })?;
    say(&format!("writes are taken again: {cleared}"));
    Ok(())
}

async fn look_for_replicas(connection: &Connection, hold: &Hold) -> Result<Cleared, Error> {
    let (table, info) =
        tokio::try_join!(connection.cluster_nodes(), connection.info(&[Section::Replication]))
            .context(ServerSnafu)?;
    let replication = info.replication().context(RoleSnafu)?;
    hold.cleared_up(&table, &replication).context(HeldSnafu { names: hold.in_doubt.join(", ") })
}

/// How long ago the server was first seen to answer: the time it needs to load its data is nobody's delay. Where that cannot be
/// found out, its replicas still can be.
fn since_it_answers(directory: &RunDirectory<'_>) -> Duration {
    let path = directory.held_since();
    uptime::since_noted(&path).unwrap_or_else(|error| {
        say(&format!("failed to count the time in {}: {error}", path.display()));
        Duration::ZERO
    })
}

/// Has the server load a new users file. Whatever goes wrong is told and is no reason to take the pod out of service: the users it has
/// loaded still work.
async fn load_users(connection: &Connection, places: &Places, directory: &RunDirectory<'_>) {
    match users_file::load(connection, &places.users, directory).await {
        Ok(Loaded::Refused(reason)) => say(&format!("failed to load {}: {reason}", places.users.display())),
        Ok(Loaded::NoFile | Loaded::Before | Loaded::Now | Loaded::RefusedBefore(_)) => {}
        Err(error) => say(&chain(&error)),
    }
}
