//! The server's configuration: read where the gate has to know it, and completed with what only the pod knows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use secrecy::{ExposeSecret as _, SecretString};
use valkey::conf::{ConfError, render, words_of_line};

use crate::hold::Wanted;

/// The configuration as the operator wrote it: without secrets and without the pod's address.
#[derive(Debug)]
pub(crate) struct BaseConf {
    text: String,
    values: BTreeMap<String, String>,
}

/// Files of TLS that the server was told to use, and we use towards its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsFiles {
    /// Whom to trust.
    pub(super) ca: Option<String>,
    /// Certificate and key.
    pub(super) identity: Option<(String, String)>,
}

impl BaseConf {
    pub(crate) fn new(text: String) -> Self {
        let values = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .filter_map(words_of_line)
            .filter_map(|words| {
                let mut words = words.into_iter();
                // As in the server, names have no case and the last line of a name counts.
                Some((words.next()?.to_ascii_lowercase(), words.next()?))
            })
            .collect();
        Self { text, values }
    }

    /// The directives it names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The file of the node's identity and of its table of nodes.
    pub(super) fn nodes_conf(&self) -> &str {
        self.value("cluster-config-file").unwrap_or("nodes.conf")
    }

    /// What holds a copy of the data.
    pub(super) fn copies(&self) -> [&str; 2] {
        [
            self.value("dbfilename").unwrap_or("dump.rdb"),
            self.value("appenddirname").unwrap_or("appendonlydir"),
        ]
    }

    /// How many replicas a write is to have.
    pub(crate) fn wanted_replicas(&self) -> Wanted {
        Wanted::read(|name| self.value(name))
    }

    /// What TLS takes, if clients are served with it.
    pub(super) fn tls(&self) -> Option<TlsFiles> {
        self.value("tls-port").filter(|port| *port != "0")?;
        let pair =
            |certificate, key| Some((self.value(certificate)?.to_owned(), self.value(key)?.to_owned()));
        Some(TlsFiles {
            ca: self.value("tls-ca-cert-file").map(str::to_owned),
            // A certificate for serving only is not enough to be a client with.
            identity: pair("tls-client-cert-file", "tls-client-key-file")
                .or_else(|| pair("tls-cert-file", "tls-key-file")),
        })
    }

    /// The final file. Our lines come last, so that they count.
    pub(super) fn complete(
        &self,
        pod_ip: IpAddr,
        primaryauth: &SecretString,
        of_release: &[(&str, &str)],
    ) -> Result<SecretString, ConfError> {
        let mut ours = BTreeMap::from([
            ("cluster-announce-ip".to_owned(), pod_ip.to_string()),
            // So that a primary knows its replicas by the addresses in its table, whatever is between them.
            ("replica-announce-ip".to_owned(), pod_ip.to_string()),
            ("primaryauth".to_owned(), primaryauth.expose_secret().to_owned()),
        ]);
        // What the operator wrote about them counts more.
        let silent = of_release.iter().filter(|(name, _)| self.value(name).is_none());
        ours.extend(silent.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let ours = render(&ours)?;
        Ok(SecretString::from(format!("{}\n{ours}", self.text.trim_end())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> BaseConf {
        BaseConf::new(text.to_owned())
    }

    #[test]
    fn our_lines_come_last_and_no_password_can_add_one() {
        let base = base("port 6379\nprimaryuser _replication\n\n");
        let ip = "10.1.2.3".parse().unwrap();
        let text = base.complete(ip, &SecretString::from("a\"b c\nport 1"), &[]).unwrap();
        assert_eq!(
            text.expose_secret(),
            "port 6379\nprimaryuser _replication\ncluster-announce-ip 10.1.2.3\n\
             primaryauth \"a\\\"b c\\x0aport 1\"\nreplica-announce-ip 10.1.2.3\n"
        );
        assert!(!format!("{text:?}{base:?}").contains("a\""));
    }

    #[test]
    fn what_a_release_brings_gives_way_to_what_is_written() {
        let complete = |text: &str| {
            let ip = "10.1.2.3".parse().unwrap();
            let of_release = [("shutdown-on-sigterm", "failover")];
            base(text).complete(ip, &SecretString::from("p"), &of_release).unwrap().expose_secret().to_owned()
        };
        assert!(complete("port 6379\n").contains("\nshutdown-on-sigterm failover\n"));
        assert!(!complete("shutdown-on-sigterm safe\n").contains("failover"));
    }

    #[test]
    fn files_have_the_names_the_server_gives_them() {
        let plain = base("# dbfilename other\nport 6379\n");
        assert_eq!((plain.nodes_conf(), plain.copies()), ("nodes.conf", ["dump.rdb", "appendonlydir"]));
        let named = base("cluster-config-file a\ndbfilename b\nDbFilename \"c d\"\nappenddirname e\n");
        assert_eq!((named.nodes_conf(), named.copies()), ("a", ["c d", "e"]));
    }

    #[test]
    fn tls_is_used_where_clients_are_served_with_it() {
        let files = "tls-cert-file s.crt\ntls-key-file s.key\ntls-ca-cert-file ca\n";
        assert_eq!(base(files).tls(), None);
        assert_eq!(base(&format!("{files}tls-port 0\n")).tls(), None);
        let pair = |name: &str| Some((format!("{name}.crt"), format!("{name}.key")));
        let tls = |identity| Some(TlsFiles { ca: Some("ca".to_owned()), identity });
        assert_eq!(base(&format!("{files}tls-port 6379\n")).tls(), tls(pair("s")));
        let both = format!("{files}tls-port 6379\ntls-client-cert-file c.crt\ntls-client-key-file c.key\n");
        assert_eq!(base(&both).tls(), tls(pair("c")));
        assert_eq!(base("tls-port 1\ntls-ca-cert-file ca\n").tls(), tls(None));
    }
}
