//! Ports nobody listens on.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port of loopback that was free a moment ago. Somebody else may take it meanwhile, so that users try again.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
