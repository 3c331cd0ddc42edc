//! Lets all processes of a control group stand still, as on a machine that hangs: they neither run nor die.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use serde::{Deserialize, Serialize};
use snafu::ResultExt;

use super::error::{FaultError, FreezerSnafu, StillRunningSnafu};

/// How long the kernel may take to stop every process of a group.
const PATIENCE: Duration = Duration::from_secs(5);

/// A control group that stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freeze {
    /// The group's folder.
    pub group: PathBuf,
}

impl Freeze {
    pub(super) fn begin(&self) -> Result<(), FaultError> {
        let group = &self.group;
        set(group, true).context(FreezerSnafu { action: "freeze", group })?;
        let deadline = Instant::now() + PATIENCE;
        while !is_frozen(group) {
            if Instant::now() > deadline {
                return StillRunningSnafu { group }.fail();
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// A group that is gone has nothing left to thaw.
    pub(super) fn end(&self) -> Result<(), FaultError> {
        let group = &self.group;
        match set(group, false) {
            Err(error) if !group.exists() => {
                tracing::debug!(%error, group = %group.display(), "the frozen group is gone");
                Ok(())
            }
            result => result.context(FreezerSnafu { action: "thaw", group }),
        }
    }
}

fn set(group: &Path, frozen: bool) -> io::Result<()> {
    // Never create the file: in a folder that is no control group that would look like success.
    let write = |file: &str, value: &str| {
        let mut file = fs::File::options().write(true).open(group.join(file))?;
        io::Write::write_all(&mut file, value.as_bytes())
    };
    if group.join("freezer.state").exists() {
        write("freezer.state", if frozen { "FROZEN" } else { "THAWED" })
    } else {
        write("cgroup.freeze", if frozen { "1" } else { "0" })
    }
}

fn is_frozen(group: &Path) -> bool {
    let read = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
    read("freezer.state").trim() == "FROZEN" || read("cgroup.events").lines().any(|line| line == "frozen 1")
}
