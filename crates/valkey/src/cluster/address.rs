//! The address of a cluster member, as CLUSTER NODES and nodes.conf write it.

use std::collections::BTreeMap;
use std::fmt;

/// `ip:port@bus[,hostname[,name=value…]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// IPv4 or IPv6 without brackets; empty while the address is not known.
    pub ip: String,
    /// Port of clients; 0 while it is not known.
    pub port: u16,
    /// Port of the cluster bus.
    pub bus_port: Option<u16>,
    /// What `cluster-announce-hostname` says.
    pub hostname: Option<String>,
    /// What follows: `shard-id`, `nodename`, `tls-port` and so on.
    pub auxiliary: BTreeMap<String, String>,
}

impl Address {
    /// Reads an address; `None` where there is no port.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let head = parts.next()?;
        let (endpoint, bus_port) = match head.split_once('@') {
            Some((endpoint, bus)) => (endpoint, Some(bus.parse().ok()?)),
            None => (head, None),
        };
        // An IPv6 address holds colons itself: the port follows the last one.
        let (ip, port) = endpoint.rsplit_once(':')?;
        let hostname = parts.next().filter(|name| !name.is_empty()).map(str::to_owned);
        let auxiliary = parts
            .filter_map(|part| part.split_once('='))
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Some(Self { ip: ip.to_owned(), port: port.parse().ok()?, bus_port, hostname, auxiliary })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ip, self.port)?;
        if let Some(bus_port) = self.bus_port {
            write!(f, "@{bus_port}")?;
        }
        if self.hostname.is_some() || !self.auxiliary.is_empty() {
            write!(f, ",{}", self.hostname.as_deref().unwrap_or_default())?;
        }
        self.auxiliary.iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}
