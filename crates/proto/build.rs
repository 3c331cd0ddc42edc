//! Makes Rust of the gRPC contract. It is read by a compiler of ours, so that nobody needs to have `protoc`.

use std::error::Error;

const CONTRACTS: &str = "../../proto";
const AGENT: &str = "valkey/agent/v1/agent.proto";
/// Holds passwords: how it is shown is written by hand.
const SECRET: &str = "valkey.agent.v1.Directive";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={CONTRACTS}");
    let contract = protox::compile([AGENT], [CONTRACTS])?;
    // What carries the messages is not for this crate to know.
    tonic_prost_build::configure().build_transport(false).skip_debug([SECRET]).compile_fds(contract)?;
    Ok(())
}
