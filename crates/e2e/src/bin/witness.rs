//! Writes to a cluster at a fixed rate while something happens to it, and tells what that cost: lost and failed writes,
//! the longest gap of each shard, redirections, retries, latency. Ends with 0 only if nothing was lost.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, io};

use clap::Parser;
use e2e::access::{Access, Address};
use e2e::witness::{Progress, Settings, Witness, WitnessError};
use jiff::SignedDuration;
use secrecy::SecretString;
use snafu::{ResultExt as _, Snafu};
use tokio::time::{MissedTickBehavior, interval, sleep};
use valkey::Tls;

/// Writes to a Valkey cluster at a fixed rate and tells what was lost, what failed and how long writes were stalled.
#[derive(Debug, Parser)]
#[command(name = "witness")]
struct Arguments {
    /// A server of the cluster; may be given several times. Any that answers will do.
    #[arg(long = "seed", required = true, value_name = "HOST:PORT")]
    seeds: Vec<Address>,
    /// The user to write as; without a password file, one that needs none. It must be allowed to run CLUSTER SLOTS, SET,
    /// GET and UNLINK.
    #[arg(long)]
    user: Option<String>,
    /// A file with the password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// A file with the certificates to trust; turns TLS on.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The name that all servers' certificates carry, if it is not the address they are reached by.
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_server_name: Option<String>,
    /// Writes a second, over all shards.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Keys, over all shards.
    #[arg(long, default_value_t = 600)]
    keys: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 64)]
    value_size: usize,
    /// How long to write, as in `60s` or `5m`; Ctrl-C ends it earlier.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = length)]
    length: Duration,
    /// How long a write is tried again before it counts as failed.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = length)]
    deadline: Duration,
    /// What the names of all keys begin with, for users who may not write everywhere.
    #[arg(long, default_value = "witness")]
    prefix: String,
    /// Leave the keys in the cluster.
    #[arg(long)]
    keep_keys: bool,
}

#[derive(Debug, Snafu)]
enum RunError {
    #[snafu(display("failed to read {}", path.display()))]
    Read { path: PathBuf, source: io::Error },
    #[snafu(display("failed to start the witness"))]
    Start { source: WitnessError },
    #[snafu(display("failed to look for what was acknowledged"))]
    Verify { source: WitnessError },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}", snafu::Report::from_error(error));
            ExitCode::from(2)
        }
    }
}

/// Whether everything that was acknowledged is there.
async fn run(arguments: Arguments) -> Result<bool, RunError> {
    let access = access(&arguments)?;
    let settings = Settings {
        rate: arguments.rate,
        keys: arguments.keys,
        value_size: arguments.value_size,
        operation_deadline: arguments.deadline,
        prefix: arguments.prefix.clone(),
        ..Settings::new(access.clone())
    };
    let witness = Witness::start(settings).await.context(StartSnafu)?;
    watch(&witness, arguments.length).await;
    let report = witness.stop().await;
    let verdict = match report.clone().verify(&access).await {
        Ok(verdict) => verdict,
        Err(source) => {
            // What was seen is worth telling although nobody knows what is left of it.
            println!("{report}");
            return Err(RunError::Verify { source });
        }
    };
    println!("\n{verdict}");
    if !arguments.keep_keys && report.remove_keys(&access).await.is_err() {
        eprintln!("the keys of the witness stay in the cluster");
    }
    Ok(verdict.lost == 0 && verdict.findings.is_empty())
}

/// One line a second until the time is over or somebody has seen enough.
async fn watch(witness: &Witness, length: Duration) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let end = sleep(length);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return,
            _ = tokio::signal::ctrl_c() => return,
            _ = ticks.tick() => println!("{}", line(&witness.progress())),
        }
    }
}

fn line(progress: &Progress) -> String {
    let tally = &progress.tally;
    format!(
        "{:5.0} s: {} acknowledged, {} failed, {} redirects, {} retries; silent for {} ms, at most {} ms{}",
        progress.elapsed.as_secs_f64(),
        tally.acknowledged,
        tally.failed_operations(),
        tally.redirects(),
        tally.retried_attempts(),
        progress.silence.as_millis(),
        progress.longest_gap.as_millis(),
        if tally.findings.is_empty() { "" } else { "; WRITES ARE LOST" },
    )
}

fn access(arguments: &Arguments) -> Result<Access, RunError> {
    let mut access = Access::open(arguments.seeds.iter().cloned());
    if arguments.user.is_some() || arguments.password_file.is_some() {
        let text = arguments.password_file.as_deref().map(read).transpose()?.unwrap_or_default();
        let password = SecretString::from(text.trim_end_matches(['\n', '\r']));
        access = access.with_credentials(arguments.user.as_deref(), password);
    }
    if let Some(path) = &arguments.tls_ca {
        let server_name = arguments.tls_server_name.clone();
        access = access.with_tls(Tls { ca_pem: read(path)?, client_identity: None, server_name });
    }
    Ok(access)
}

fn read(path: &Path) -> Result<String, RunError> {
    fs::read_to_string(path).context(ReadSnafu { path })
}

fn length(text: &str) -> Result<Duration, String> {
    let length: SignedDuration = text.parse().map_err(|_| "write it as 60s or 5m".to_owned())?;
    Duration::try_from(length).map_err(|_| "it must not be negative".to_owned())
}
