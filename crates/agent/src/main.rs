//! Entry of the program in the pod.

use std::process::ExitCode;

use clap::Parser as _;
use valkey_agent::args::Args;

fn main() -> ExitCode {
    valkey_agent::run(&Args::parse())
}
