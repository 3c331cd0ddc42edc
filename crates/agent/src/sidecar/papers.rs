//! Our certificate, its key and those we trust, as Kubernetes keeps them in the pod. They are replaced while we run.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use channel::{Credentials, CredentialsError};
use pki::{Certificate, Identity, IdentityError, ReadError, Role};
use secrecy::{ExposeSecret as _, SecretString};
use snafu::{OptionExt as _, ResultExt as _, Snafu};

use crate::{chain, say};

/// Why nobody can be spoken to.
#[derive(Debug, Snafu)]
pub(super) enum Error {
    /// A file is not there, or not for us.
    #[snafu(display("failed to read {}", path.display()))]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The files do not fit together.
    #[snafu(display("failed to use the certificate in {}", path.display()))]
    Use {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: CredentialsError,
    },
    /// The certificate cannot be read.
    #[snafu(display("failed to read the certificate in {}", path.display()))]
    Understand {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: ReadError,
    },
    /// It says not who we are.
    #[snafu(display("the certificate in {} names nobody", path.display()))]
    FindName {
        /// The directory.
        path: PathBuf,
    },
    /// It says that we are somebody who cannot be.
    #[snafu(display("failed to understand whom the certificate in {} is for", path.display()))]
    Name {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: IdentityError,
    },
}

/// What we show, and to whom.
pub(super) struct Papers {
    pub(super) credentials: Arc<Credentials>,
    /// Who we are.
    pub(super) own: Identity,
    /// Who looks after our cluster.
    pub(super) operator: Identity,
}

/// The files as they were read last.
struct Text {
    chain: String,
    key: SecretString,
    trusted: String,
}

impl Text {
    fn read(directory: &Path) -> Result<Self, Error> {
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).context(ReadSnafu { path })
        };
        Ok(Self { chain: read("tls.crt")?, key: read("tls.key")?.into(), trusted: read("ca.crt")? })
    }

    fn is(&self, other: &Self) -> bool {
        self.chain == other.chain
            && self.trusted == other.trusted
            && self.key.expose_secret() == other.key.expose_secret()
    }
}

/// Where they are, and those that were good last.
pub(super) struct Wallet {
    directory: PathBuf,
    last: Option<(Text, Arc<Papers>)>,
    /// What was wrong with newer ones.
    complained: Option<String>,
}

impl Wallet {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, last: None, complained: None }
    }

    /// Those to use now. New ones that cannot be used are a reason to go on with the last ones: the three files may have been
    /// replaced while we read them.
    pub(super) fn papers(&mut self) -> Result<Arc<Papers>, Error> {
        let read = Text::read(&self.directory).and_then(|text| {
            if let Some((last, papers)) = &self.last
                && last.is(&text)
            {
                return Ok((text, papers.clone()));
            }
            let papers = self.understand(&text)?;
            Ok((text, Arc::new(papers)))
        });
        match (read, &self.last) {
            (Ok((text, papers)), _) => {
                self.complained = None;
                self.last = Some((text, papers.clone()));
                Ok(papers)
            }
            (Err(error), Some((_, papers))) => {
                let words = chain(&error);
                if self.complained.as_ref() != Some(&words) {
                    say(&format!("the last certificate stays in use: {words}"));
                    self.complained = Some(words);
                }
                Ok(papers.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    /// One that several parts use.
    pub(super) fn shared(directory: PathBuf) -> SharedWallet {
        SharedWallet(Arc::new(Mutex::new(Self::new(directory))))
    }

    fn understand(&self, text: &Text) -> Result<Papers, Error> {
        let path = &self.directory;
        let credentials =
            Credentials::read(&text.chain, &text.key, &text.trusted).context(UseSnafu { path })?;
        let certificate = Certificate::read(&text.chain).context(UnderstandSnafu { path })?;
        let uri = certificate.uris.first().context(FindNameSnafu { path })?;
        let own: Identity = uri.parse().context(NameSnafu { path })?;
        let operator = Identity { role: Role::Operator, pod: None, ..own.clone() };
        Ok(Papers { credentials: Arc::new(credentials), own, operator })
    }
}

/// The same files, for several parts.
#[derive(Clone)]
pub(super) struct SharedWallet(Arc<Mutex<Wallet>>);

impl SharedWallet {
    pub(super) fn papers(&self) -> Result<Arc<Papers>, Error> {
        // A wallet is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).papers()
    }
}
