//! Ports nobody listens on.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port of loopback that was free a moment ago. Somebody else may take it meanwhile, so that users try again.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A free port, and the one where CLUSTER MEET looks for the bus unless it is told otherwise.
pub(super) fn with_bus() -> io::Result<(u16, u16)> {
    loop {
        let port = free_port()?;
        // Ports end at 65535, those that the system hands out lie anywhere below.
        if let Some(bus_port) = port.checked_add(10_000)
            && TcpListener::bind((Ipv4Addr::LOCALHOST, bus_port)).is_ok()
        {
            return Ok((port, bus_port));
        }
    }
}
