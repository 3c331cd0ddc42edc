//! The files of the directory that lives as long as the pod, and no longer.

use std::path::{Path, PathBuf};

/// The directory, by the names in it.
#[derive(Debug)]
pub(crate) struct RunDirectory<'a>(&'a Path);

impl<'a> RunDirectory<'a> {
    pub(crate) fn new(path: &'a Path) -> Self {
        Self(path)
    }

    /// The configuration the server reads.
    pub(crate) fn conf(&self) -> PathBuf {
        self.0.join("valkey.conf")
    }

    /// Where the server listens for us.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("valkey.sock")
    }

    /// There once a server was started in this pod.
    pub(crate) fn started(&self) -> PathBuf {
        self.0.join("started")
    }

    /// There once the server that runs knew the owner of every slot.
    pub(crate) fn knows_all_slots(&self) -> PathBuf {
        self.0.join("knows-all-slots")
    }

    /// There while the server acknowledges nothing: the replicas it waits for, and what it is told then.
    pub(crate) fn writes_held(&self) -> PathBuf {
        self.0.join("writes-held")
    }

    /// Written when a server that holds writes back first answered.
    pub(crate) fn held_since(&self) -> PathBuf {
        self.0.join("held-since")
    }

    /// There while the server that runs may be replaced without being asked: others were told that its writes are stopped in time.
    pub(crate) fn leads_at_a_word(&self) -> PathBuf {
        self.0.join("leads-at-a-word")
    }

    /// The fingerprint of the users file that the server loaded last.
    pub(crate) fn users_loaded(&self) -> PathBuf {
        self.0.join("users-loaded")
    }

    /// The fingerprint of the users file that the server refused, and why.
    pub(crate) fn users_refused(&self) -> PathBuf {
        self.0.join("users-refused")
    }
}
