//! Asking peers for their tables of nodes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use snafu::{ResultExt as _, Snafu};
use tokio::task::JoinSet;
use valkey::cluster::{Address, ClusterNodes};
use valkey::{Connection, Credentials, Deadlines, Identity, Target, Tls};

use super::conf::TlsFiles;
use crate::args::GateArgs;
use crate::chain;
use crate::secrets::{self, AGENT, PasswordError};

/// A peer that takes longer is asked again in the next round.
const PATIENCE: Deadlines =
    Deadlines { connect: Duration::from_millis(500), command: Duration::from_millis(500) };

/// What we lack to speak to peers at all.
#[derive(Debug, Snafu)]
pub(crate) enum AccessError {
    /// Without a password nobody lets us in.
    #[snafu(transparent)]
    Password {
        /// Why.
        source: PasswordError,
    },
    /// The server would miss it, too.
    #[snafu(display("failed to read {} for TLS", path.display()))]
    ReadTls {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// How peers let us in: all of them the same way.
pub(super) struct Access {
    credentials: Credentials,
    tls: Option<Tls>,
}

/// The answers of one round.
#[derive(Default)]
pub(super) struct Round {
    /// The tables of those that answered.
    pub(super) tables: Vec<ClusterNodes>,
    /// Why the others did not.
    pub(super) failures: Vec<String>,
}

impl Access {
    pub(super) fn read(args: &GateArgs, files: Option<TlsFiles>) -> Result<Self, AccessError> {
        let password = secrets::password(&args.places.secrets, AGENT)?;
        let credentials = Credentials { username: Some(AGENT.to_owned()), password };
        let tls = files.map(|files| read_tls(files, args.peer_name.clone())).transpose()?;
        Ok(Self { credentials, tls })
    }

    /// Asks all of them at once.
    pub(super) async fn ask(&self, peers: &[Address]) -> Round {
        let mut asking = JoinSet::new();
        for target in peers.iter().filter_map(|peer| self.target(peer)) {
            asking.spawn(async move { Connection::open(&target).await?.cluster_nodes().await });
        }
        let mut round = Round::default();
        while let Some(answer) = asking.join_next().await {
            match answer {
                Ok(Ok(table)) => round.tables.push(table),
                Ok(Err(error)) => round.failures.push(chain(&error)),
                Err(error) => round.failures.push(error.to_string()),
            }
        }
        round
    }

    fn target(&self, peer: &Address) -> Option<Target> {
        let port = client_port(peer, self.tls.is_some())?;
        Some(Target {
            credentials: Some(self.credentials.clone()),
            tls: self.tls.clone(),
            ..Target::tcp(peer.ip.as_str(), port).with_deadlines(PATIENCE)
        })
    }
}

/// The port of a peer, with or without TLS. The one in front may be either; the other kind has a name.
fn client_port(peer: &Address, tls: bool) -> Option<u16> {
    let named = peer.auxiliary.get(if tls { "tls-port" } else { "tcp-port" });
    let named = named.and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    named.or(Some(peer.port)).filter(|port| *port != 0)
}

fn read_tls(files: TlsFiles, server_name: Option<String>) -> Result<Tls, AccessError> {
    let read = |path: &str| fs::read_to_string(path).context(ReadTlsSnafu { path: Path::new(path) });
    let client_identity = match files.identity {
        None => None,
        Some((certificate, key)) => {
            Some(Identity { certificate_pem: read(&certificate)?, key_pem: SecretString::from(read(&key)?) })
        }
    };
    // All servers of a cluster show the same certificate: ours says by which name theirs can be verified.
    let own_name = client_identity.as_ref().and_then(|identity| {
        valkey::client::certificate::name_in_certificate(&identity.certificate_pem).ok()
    });
    let server_name = server_name.or(own_name);
    let ca_pem = files.ca.as_deref().map(read).transpose()?.unwrap_or_default();
    Ok(Tls { ca_pem, client_identity, server_name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_fits_the_kind_of_connection() {
        for (address, plain, tls) in [
            ("10.0.0.1:6379@16379", Some(6379), Some(6379)),
            ("10.0.0.1:6379@16379,,tls-port=0", Some(6379), Some(6379)),
            ("10.0.0.1:6379@16379,host,tls-port=6380,shard-id=a", Some(6379), Some(6380)),
            ("10.0.0.1:6380@16379,,tcp-port=6379", Some(6379), Some(6380)),
            ("10.0.0.1:0@16379,,tls-port=6380", None, Some(6380)),
            ("10.0.0.1:0@16379,,tls-port=x", None, None),
        ] {
            let peer = Address::parse(address).expect("should be an address");
            assert_eq!((client_port(&peer, false), client_port(&peer, true)), (plain, tls), "{address}");
        }
    }
}
