//! `init`: the program puts itself where a container of another image can run it.

use std::fs::File;
use std::path::PathBuf;
use std::{env, io};

use snafu::{ResultExt as _, Snafu};

use crate::args::InitArgs;
use crate::files;

/// The name by which the server's container calls it.
const NAME: &str = "valkey-agent";

/// Why the program is not where it should be.
#[derive(Debug, Snafu)]
pub(crate) enum Error {
    /// The program cannot be read.
    #[snafu(display("failed to read this program"))]
    ReadProgram {
        /// Why.
        source: io::Error,
    },
    /// The program cannot be written.
    #[snafu(display("failed to copy this program to {}", path.display()))]
    Copy {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Copies the program; one that is there already is replaced, also while it runs.
pub(crate) fn run(args: &InitArgs) -> Result<(), Error> {
    let mut program = env::current_exe().and_then(File::open).context(ReadProgramSnafu)?;
    let path = args.to.join(NAME);
    // The server's user is another one: everybody may run it, nobody may change it.
    files::replace(&path, 0o555, &mut program).context(CopySnafu { path })
}
