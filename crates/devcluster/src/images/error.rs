//! What can go wrong while images are built, kept and imported.

use std::io;
use std::path::PathBuf;

use snafu::Snafu;

use crate::command::CommandError;

/// A failure to build, keep or import an image.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub(super)))]
pub enum ImageError {
    /// The packages of a root filesystem could not be fetched or unpacked.
    #[snafu(display("failed to make a root filesystem from Debian {suite}"))]
    Bootstrap {
        /// The Debian suite.
        suite: String,
        /// What the tool said.
        source: CommandError,
    },
    /// A package no longer brings a file that the image needs.
    #[snafu(display("failed to find /{path} in the root filesystem made from Debian {suite}"))]
    MissingFile {
        /// The Debian suite.
        suite: String,
        /// The file, without the leading slash.
        path: String,
    },
    /// The pause program could not be compiled.
    #[snafu(display("failed to compile the pause program"))]
    CompilePause {
        /// What the compiler said.
        source: CommandError,
    },
    /// An archive could not be assembled.
    #[snafu(display("failed to pack the image {reference}"))]
    Pack {
        /// The image.
        reference: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file or directory could not be read.
    #[snafu(display("failed to read {}", path.display()))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or directory could not be written.
    #[snafu(display("failed to write {}", path.display()))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The programs unpacked for this machine do not run on it.
    #[snafu(display("failed to run Valkey {version} unpacked in {}", path.display()))]
    HostProgram {
        /// The version of Valkey.
        version: &'static str,
        /// Where it was unpacked.
        path: PathBuf,
        /// What it said.
        source: CommandError,
    },
    /// A node's containerd could not be asked which images it has.
    #[snafu(display("failed to list the images of the node at {}", socket.display()))]
    List {
        /// The address of the node's containerd.
        socket: PathBuf,
        /// What the tool said.
        source: CommandError,
    },
    /// A node's containerd did not take an image.
    #[snafu(display("failed to import the image {reference} into the node at {}", socket.display()))]
    Import {
        /// The image.
        reference: String,
        /// The address of the node's containerd.
        socket: PathBuf,
        /// What the tool said.
        source: CommandError,
    },
}
