//! Keeps a note of every fault in place, so that it can be undone even when whoever made it is gone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;
use std::{fs, io, process};

use serde::{Deserialize, Serialize};
use snafu::{Report, ResultExt};

use super::disk::Fill;
use super::error::{FaultError, RecordSnafu};
use super::freezer::Freeze;
use super::network::Partition;
use super::process::Process;

/// Something broken on purpose that can be mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// All processes of a control group stand still.
    Freeze(Freeze),
    /// One process stands still.
    Stop(Process),
    /// Packets get lost.
    Partition(Partition),
    /// A disk has no free block.
    Fill(Fill),
}

/// The faults in place on this machine.
#[derive(Debug, Clone)]
pub struct Faults {
    folder: PathBuf,
}

/// A fault in place. It is mended when this is dropped, or earlier by [`ActiveFault::heal`].
#[derive(Debug)]
#[must_use = "a fault is mended when it is dropped"]
pub struct ActiveFault {
    faults: Faults,
    id: String,
    fault: Fault,
    healed: bool,
}

impl Faults {
    /// The faults noted in `folder`, which is made when it is missing.
    pub fn open(folder: &Path) -> Result<Self, FaultError> {
        fs::create_dir_all(folder).context(RecordSnafu { action: "create", path: folder })?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Puts a fault in place.
    pub fn begin(&self, fault: Fault) -> Result<ActiveFault, FaultError> {
        let id = new_id();
        let path = self.note(&id);
        // First the note: a run may be cut off at any moment.
        let note = serde_json::to_vec(&fault).map_err(io::Error::from);
        let written = note.and_then(|note| fs::write(&path, note));
        written.context(RecordSnafu { action: "write", path })?;
        // From here on the fault is undone when this is dropped, also when only a part of it could be done.
        let active = ActiveFault { faults: self.clone(), id, fault, healed: false };
        match &active.fault {
            Fault::Freeze(freeze) => freeze.begin()?,
            Fault::Stop(process) => process.stop()?,
            Fault::Partition(partition) => partition.begin(&active.id, &self.rules(&active.id))?,
            Fault::Fill(fill) => fill.begin(&active.id)?,
        }
        tracing::info!(fault = ?active.fault, "fault in place");
        Ok(active)
    }

    /// Mends every fault in place, whoever made it, and returns how many there were. All are tried, also when one fails.
    pub fn heal_all(&self) -> Result<usize, FaultError> {
        let entries = fs::read_dir(&self.folder);
        let entries = entries.context(RecordSnafu { action: "read", path: &self.folder })?;
        let ids: Vec<String> = entries
            .flatten()
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
            .collect();
        let healed: Vec<_> = ids.iter().map(|id| self.heal_noted(id)).collect();
        healed.into_iter().collect::<Result<(), _>>()?;
        Ok(ids.len())
    }

    fn heal_noted(&self, id: &str) -> Result<(), FaultError> {
        let path = self.note(id);
        let note = fs::read(&path).context(RecordSnafu { action: "read", path: &path })?;
        match serde_json::from_slice(&note) {
            Ok(fault) => self.heal(id, &fault),
            // Cut off while it was written, so before anything was done.
            Err(_) => self.forget(id),
        }
    }

    fn heal(&self, id: &str, fault: &Fault) -> Result<(), FaultError> {
        match fault {
            Fault::Freeze(freeze) => freeze.end()?,
            Fault::Stop(process) => process.cont()?,
            Fault::Partition(partition) => partition.end(id, &self.rules(id))?,
            Fault::Fill(fill) => fill.end(id)?,
        }
        self.forget(id)
    }

    fn forget(&self, id: &str) -> Result<(), FaultError> {
        for path in [self.rules(id), self.note(id)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.context(RecordSnafu { action: "remove", path })?,
            }
        }
        Ok(())
    }

    fn note(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    fn rules(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.nft"))
    }
}

impl ActiveFault {
    /// Mends the fault and says whether that worked.
    pub fn heal(mut self) -> Result<(), FaultError> {
        self.healed = true;
        self.faults.heal(&self.id, &self.fault)
    }
}

impl Drop for ActiveFault {
    fn drop(&mut self) {
        if self.healed {
            return;
        }
        if let Err(error) = self.faults.heal(&self.id, &self.fault) {
            let error = Report::from_error(error);
            tracing::error!(%error, fault = ?self.fault, "the fault stays in place");
        }
    }
}

/// Different on every call on this machine, and fit for the name of a table and of a file.
fn new_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}_{:x}_{count}", since.as_millis(), process::id())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn state(child: &Child) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn wait_for(child: &Child, stopped: bool) {
        while (state(child) == 'T') != stopped {
            std::thread::yield_now();
        }
    }

    fn stop(child: &Child) -> Fault {
        Fault::Stop(Process::running(i32::try_from(child.id()).unwrap()).unwrap())
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_fault_ends_with_its_guard() {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::open(folder.path()).unwrap();
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let active = faults.begin(stop(&child)).unwrap();
        wait_for(&child, true);
        drop(active);
        wait_for(&child, false);
        assert_eq!(faults.heal_all().unwrap(), 0);
        end(child);
    }

    #[test]
    fn a_fault_whose_maker_was_killed_is_healed_from_its_note() {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::open(folder.path()).unwrap();
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        std::mem::forget(faults.begin(stop(&child)).unwrap());
        wait_for(&child, true);
        fs::write(folder.path().join("cut-off.json"), "{\"stop").unwrap();
        let later = Faults::open(folder.path()).unwrap();
        assert_eq!(later.heal_all().unwrap(), 2);
        wait_for(&child, false);
        assert_eq!(later.heal_all().unwrap(), 0);
        end(child);
    }

    #[test]
    fn a_fault_that_cannot_be_made_leaves_no_note() {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::open(folder.path()).unwrap();
        let freeze = Freeze { group: folder.path().join("no-such-group") };
        faults.begin(Fault::Freeze(freeze)).unwrap_err();
        assert_eq!(faults.heal_all().unwrap(), 0);
    }

    #[test]
    fn ids_differ_and_suit_nft() {
        let (one, other) = (new_id(), new_id());
        assert_ne!(one, other);
        assert!(one.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{one}");
    }
}
