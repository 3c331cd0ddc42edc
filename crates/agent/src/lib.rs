//! The program in a Valkey pod. Four modes: `init` puts it where the server's container finds it, `gate` decides as
//! whom the server may start and becomes the server, `ready` is the pod's startup and readiness probe, and `sidecar` runs
//! beside the server, looks at it and tells the operator.

pub mod args;
mod files;
mod gate;
mod hold;
mod init;
mod ready;
mod run_directory;
mod secrets;
mod sidecar;
mod uptime;
mod users;
mod users_file;

use std::error::Error;
use std::process::ExitCode;

use snafu::ErrorCompat;

use crate::args::{Args, Mode};

/// Do what the arguments say. The gate comes back only if there is no server to become.
pub fn run(args: &Args) -> ExitCode {
    match &args.mode {
        Mode::Init(args) => exit(init::run(args)),
        Mode::Gate(args) => exit(gate::run(args)),
        Mode::Ready(args) => exit(ready::run(args)),
        Mode::Sidecar(args) => exit(sidecar::run(args)),
    }
}

fn exit<E: Error + ErrorCompat + 'static>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// One line in the log of the container, or in the event that the kubelet writes of a probe.
fn say(line: &str) {
    eprintln!("valkey-agent: {line}");
}

/// An error with all its causes in one line.
fn chain<E: Error + ErrorCompat + 'static>(error: &E) -> String {
    error.iter_chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
