//! `gate`: writes the final configuration, decides as whom the server may start, and becomes the server.

pub(crate) mod conf;
mod peers;
mod release;
mod shards;
mod start_rule;
mod wait;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use secrecy::ExposeSecret as _;
use snafu::{ResultExt as _, Snafu};
use valkey::conf::ConfError;

use self::conf::BaseConf;
use self::peers::AccessError;
use self::start_rule::{Decision, Facts, decide, replicas_in_doubt};
use self::wait::{Ended, WaitError};
use crate::args::GateArgs;
use crate::hold::Hold;
use crate::run_directory::RunDirectory;
use crate::secrets::{self, PasswordError, REPLICATION};
use crate::{files, say, users};

/// Why no server was started. Nothing here ever holds a password.
#[derive(Debug, Snafu)]
pub(crate) enum Error {
    /// There is no configuration.
    #[snafu(display("failed to read {}", path.display()))]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The password of the replication user is not there.
    #[snafu(transparent)]
    Password {
        /// Why.
        source: PasswordError,
    },
    /// The configuration cannot be completed.
    #[snafu(display("failed to complete the configuration"))]
    Complete {
        /// Why.
        source: ConfError,
    },
    /// A file of ours cannot be written.
    #[snafu(display("failed to write {}", path.display()))]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that must not be there at the start cannot be removed.
    #[snafu(display("failed to remove {}", path.display()))]
    Remove {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server would crash instead of saying so.
    #[snafu(display("failed to accept {}: a selector in line {line} is not closed", path.display()))]
    OpenSelector {
        /// The users file.
        path: PathBuf,
        /// Where in it.
        line: usize,
    },
    /// Peers cannot be asked.
    #[snafu(transparent)]
    Access {
        /// Why.
        source: AccessError,
    },
    /// The wait could not begin.
    #[snafu(transparent)]
    Wait {
        /// Why.
        source: WaitError,
    },
    /// The program is not there, or may not be run.
    #[snafu(display("failed to become {program}"))]
    Exec {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
}

/// Becomes the server, and comes back only if that failed or if the pod is told to stop before.
pub(crate) fn run(args: &GateArgs) -> Result<(), Error> {
    let directory = RunDirectory::new(&args.places.run);
    let base = fs::read_to_string(&args.base).context(ReadSnafu { path: &args.base })?;
    let base = BaseConf::new(base);
    write_conf(args, &base, &directory)?;
    let users = accept_users(&args.places.users)?;
    let Some(in_doubt) = admit(args, &base, &directory)? else {
        say("told to stop before the server was started");
        return Ok(());
    };
    // Not if nobody could end it: the probe is the agent's user, and an older operator gave that one less.
    let may_end = users.as_deref().is_some_and(users::lets_the_agent_set);
    let hold = Some(Hold { in_doubt, wanted: base.wanted_replicas() })
        .filter(|hold| !hold.in_doubt.is_empty() && may_end);
    note_the_start(&directory, users.as_deref(), hold.as_ref())?;
    become_the_server(args, &directory, hold.as_ref())
}

fn write_conf(args: &GateArgs, base: &BaseConf, directory: &RunDirectory<'_>) -> Result<(), Error> {
    let primaryauth = secrets::password(&args.places.secrets, REPLICATION)?;
    let of_release = release::directives(release::of(program(args)));
    let text = base.complete(args.pod_ip, &primaryauth, &of_release).context(CompleteSnafu)?;
    let path = directory.conf();
    files::replace(&path, 0o600, &mut text.expose_secret().as_bytes()).context(WriteSnafu { path })
}

fn accept_users(path: &Path) -> Result<Option<String>, Error> {
    let users = files::read_if_there(path).context(ReadSnafu { path })?;
    if let Some(line) = users.as_deref().and_then(users::line_with_open_selector) {
        return OpenSelectorSnafu { path, line }.fail();
    }
    Ok(users)
}

/// Brings about what the rule demands before a start: the replicas that the server has to hear from before it acknowledges
/// anything; `None` if it must not start any more.
fn admit(
    args: &GateArgs,
    base: &BaseConf,
    directory: &RunDirectory<'_>,
) -> Result<Option<Vec<String>>, Error> {
    let path = args.data_dir.join(base.nodes_conf());
    let nodes_conf = files::read_if_there(&path).context(ReadSnafu { path: &path })?;
    let nodes_conf = match nodes_conf.as_deref().and_then(shards::mended) {
        Some(mended) => {
            say(&format!("{} named a replica of another shard than its primary's: mended", path.display()));
            files::replace(&path, 0o644, &mut mended.as_bytes()).context(WriteSnafu { path })?;
            Some(mended)
        }
        None => nodes_conf,
    };
    let restarted = directory.started().exists();
    let facts = Facts { data: args.data, nodes_conf: nodes_conf.as_deref(), restarted, heard: &[] };
    let reason = match decide(&facts) {
        Decision::Start(reason) => reason,
        Decision::WaitForPeers(peers) => {
            let access = peers::Access::read(args, base.tls())?;
            match wait::until_decided(&facts, &peers, &access, args.peer_wait)? {
                Ended::Decided(reason) => reason,
                Ended::Stopped => return Ok(None),
            }
        }
    };
    if facts.is_stranger() {
        say(&format!("starting as a stranger, the data of the server that ran here is gone: {reason}"));
        forget(args, base)?;
    } else {
        say(&format!("starting as it was: {reason}"));
    }
    Ok(Some(replicas_in_doubt(&facts, &reason)))
}

/// Removes identity and data. The identity goes last: as long as it is there, a gate that was cut off begins anew.
fn forget(args: &GateArgs, base: &BaseConf) -> Result<(), Error> {
    for name in base.copies().into_iter().chain([base.nodes_conf()]) {
        let path = args.data_dir.join(name);
        if files::remove_if_there(&path).context(RemoveSnafu { path: &path })? {
            say(&format!("removed {}", path.display()));
        }
    }
    Ok(())
}

/// What the probe and the next gate need to know about the server that starts now.
fn note_the_start(
    directory: &RunDirectory<'_>,
    users: Option<&str>,
    hold: Option<&Hold>,
) -> Result<(), Error> {
    // Whatever the last server knew, this one does not know it yet.
    for path in [
        directory.knows_all_slots(),
        directory.users_loaded(),
        directory.users_refused(),
        directory.writes_held(),
        directory.held_since(),
        directory.leads_at_a_word(),
    ] {
        files::remove_if_there(&path).context(RemoveSnafu { path })?;
    }
    if let Some(hold) = hold {
        let path = directory.writes_held();
        files::replace(&path, 0o600, &mut hold.render().as_bytes()).context(WriteSnafu { path })?;
    }
    if let Some(users) = users {
        let path = directory.users_loaded();
        let fingerprint = users::fingerprint(users);
        files::replace(&path, 0o600, &mut fingerprint.as_bytes()).context(WriteSnafu { path })?;
    }
    let path = directory.started();
    files::replace(&path, 0o600, &mut io::empty()).context(WriteSnafu { path })
}

fn program(args: &GateArgs) -> &str {
    args.server.first().map_or("valkey-server", String::as_str)
}

fn become_the_server(
    args: &GateArgs,
    directory: &RunDirectory<'_>,
    hold: Option<&Hold>,
) -> Result<(), Error> {
    let program = program(args);
    if let Some(hold) = hold {
        let names = hold.in_doubt.join(", ");
        say(&format!("a replica may have taken over: no write is taken before these follow: {names}"));
    }
    let holding = hold.map(Hold::args).into_iter().flatten();
    let words = args.server.iter().skip(1).cloned().chain(holding);
    // In place of this process, so that the server is the container's first one and gets its signals.
    let source = Command::new(program).arg(directory.conf()).args(words).exec();
    Err(source).context(ExecSnafu { program })
}
