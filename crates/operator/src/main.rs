//! Entry of the operator program.

use std::process::ExitCode;

use clap::Parser as _;
use valkey_operator::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    kit::telemetry::init(&args.log_level);
    // One thread does all: the work is waiting, and each further thread costs memory on every machine that runs us.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "failed to start the runtime");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(valkey_operator::run(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %kit::telemetry::chain(&error), "the operator stops");
            ExitCode::FAILURE
        }
    }
}
