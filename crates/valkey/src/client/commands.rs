//! The commands a node's keeper needs, with typed results.

use std::collections::BTreeMap;

use redis::{Cmd, Value};
use secrecy::SecretString;

use super::connection::{Connection, Request};
use super::error::Error;
use super::reply::{entries, text};
use crate::Info;
use crate::conf::is_secret;
use crate::role::Role;

/// A section of INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Section {
    /// Version, identity, uptime.
    Server,
    /// Role, replicas, offsets.
    Replication,
    /// Loading, saves, append-only file.
    Persistence,
    /// Whether cluster mode is on.
    Cluster,
    /// Use of memory.
    Memory,
    /// Connected clients.
    Clients,
    /// Counters.
    Stats,
    /// Keys per database.
    Keyspace,
}

/// What SHUTDOWN does with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Saves if save points are configured.
    Default,
    /// Saves in any case.
    Save,
    /// Saves in no case.
    NoSave,
}

impl Connection {
    /// PING.
    pub async fn ping(&self) -> Result<(), Error> {
        self.ask("PING", redis::cmd("PING")).await.map(drop)
    }

    /// INFO, of these sections only: `everything` costs the server more than most callers need.
    pub async fn info(&self, sections: &[Section]) -> Result<Info, Error> {
        self.info_text(sections).await.map(|text| Info::parse(&text))
    }

    /// The same in the server's own words, for whoever passes them on.
    pub async fn info_text(&self, sections: &[Section]) -> Result<String, Error> {
        let mut command = redis::cmd("INFO");
        for section in sections {
            command.arg(<&str>::from(section));
        }
        self.ask_text("INFO", command).await
    }

    /// INFO, of every section.
    pub async fn info_all(&self) -> Result<Info, Error> {
        let mut command = redis::cmd("INFO");
        command.arg("everything");
        self.ask_text("INFO", command).await.map(|text| Info::parse(&text))
    }

    /// ROLE.
    pub async fn role(&self) -> Result<Role, Error> {
        let reply = self.ask("ROLE", redis::cmd("ROLE")).await?;
        crate::role::read(&reply).ok_or_else(|| self.protocol("ROLE", "no role"))
    }

    /// CONFIG GET, of several patterns at once.
    pub async fn config_get(&self, patterns: &[&str]) -> Result<BTreeMap<String, String>, Error> {
        const NAME: &str = "CONFIG GET";
        // The server counts a call without patterns as a mistake; here it asks for nothing.
        if patterns.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(patterns);
        let reply = self.ask(NAME, command).await?;
        entries(&reply)
            .and_then(|pairs| {
                pairs.into_iter().map(|(name, value)| Some((text(name)?, text(value)?))).collect()
            })
            .ok_or_else(|| self.protocol(NAME, "no pairs of text"))
    }

    /// CONFIG SET, of several directives in one command: the server takes all or none.
    pub async fn config_set(&self, directives: &[(&str, &str)]) -> Result<(), Error> {
        if directives.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("CONFIG");
        command.arg("SET");
        for (name, value) in directives {
            command.arg(name).arg(value);
        }
        let secrets: Vec<SecretString> = directives
            .iter()
            .filter(|(name, _)| is_secret(name))
            .map(|(_, value)| SecretString::from(*value))
            .collect();
        let request = Request { name: "CONFIG SET", command, secrets: secrets.iter().collect() };
        self.send(request).await.map(drop)
    }

    /// REPLICAOF; `None` is NO ONE, which makes the server a primary.
    pub async fn replicaof(&self, primary: Option<(&str, u16)>) -> Result<(), Error> {
        let mut command = redis::cmd("REPLICAOF");
        match primary {
            Some((host, port)) => command.arg(host).arg(port),
            None => command.arg("NO").arg("ONE"),
        };
        self.ask("REPLICAOF", command).await.map(drop)
    }

    /// FLUSHALL: every key of every database. The memory is given back in the background.
    pub async fn flush_all(&self) -> Result<(), Error> {
        let mut command = redis::cmd("FLUSHALL");
        command.arg("ASYNC");
        self.ask("FLUSHALL", command).await.map(drop)
    }

    /// SHUTDOWN. A server that obeys does not answer: the closed connection is the success.
    pub async fn shutdown(&self, data: Shutdown) -> Result<(), Error> {
        let mut command = redis::cmd("SHUTDOWN");
        match data {
            Shutdown::Default => {}
            Shutdown::Save => drop(command.arg("SAVE")),
            Shutdown::NoSave => drop(command.arg("NOSAVE")),
        }
        match self.ask("SHUTDOWN", command).await {
            Ok(_) | Err(Error::Disconnected { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Any command, for tests and for what has no method yet. Arguments never show up in errors of ours, but a server
    /// may repeat them: not for secrets.
    pub async fn raw(&self, words: &[&str]) -> Result<Value, Error> {
        let Some((name, arguments)) = words.split_first() else {
            return Err(self.protocol("", "an empty command has no reply"));
        };
        let mut command = redis::cmd(name);
        command.arg(arguments);
        self.ask(name, command).await
    }

    pub(super) async fn ask(&self, name: &str, command: Cmd) -> Result<Value, Error> {
        self.send(Request { name, command, secrets: Vec::new() }).await
    }

    pub(super) async fn ask_text(&self, name: &str, command: Cmd) -> Result<String, Error> {
        let reply = self.ask(name, command).await?;
        text(&reply).ok_or_else(|| self.protocol(name, "no text"))
    }
}
