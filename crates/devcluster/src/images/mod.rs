//! Container images made from packages and programs, without Docker and without a registry.
//!
//! Everything here blocks: building and importing are minutes of other programs' work at worst.

mod archive;
mod config;
mod debian;
mod error;
mod exporter;
mod host_programs;
mod import;
mod pause;
mod program;
mod recipe;
mod store;
mod tree;
mod valkey;

use std::path::Path;
use std::thread;

pub use config::ImageConfig;
pub use error::ImageError;
pub use exporter::EXPORTER_REFERENCE;
pub use host_programs::{HostPrograms, host_programs};
pub use import::import;
pub use pause::PAUSE_REFERENCE;
pub use program::{from_programs, full_reference, scratch_image};
pub use store::Archive;
pub use tree::{Entry, Kind, Tree};
pub use valkey::ValkeyVersion;

/// An image that stands in for one pulled from a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StockImage {
    /// What every pod starts with.
    Pause,
    /// The server.
    Valkey(ValkeyVersion),
    /// The metrics exporter.
    Exporter,
}

impl StockImage {
    /// Every one of them.
    pub const ALL: [Self; 4] =
        [Self::Pause, Self::Valkey(ValkeyVersion::V8_1), Self::Valkey(ValkeyVersion::V9_1), Self::Exporter];

    /// The image, built when the cache lacks it.
    pub fn build(self, cache: &Path) -> Result<Archive, ImageError> {
        match self {
            Self::Pause => pause::recipe(cache)?,
            Self::Valkey(version) => valkey::recipe(version),
            Self::Exporter => exporter::recipe(),
        }
        .archive(cache)
    }
}

/// Every stock image, those that the cache lacks built side by side.
pub fn stock_images(cache: &Path) -> Result<Vec<Archive>, ImageError> {
    thread::scope(|scope| {
        let builds = StockImage::ALL.map(|image| scope.spawn(move || image.build(cache)));
        builds
            .into_iter()
            .map(|build| match build.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}
