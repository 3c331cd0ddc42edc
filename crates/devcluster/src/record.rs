//! The note of which cluster was started and whether its start came to its end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::files::{self, FileError};
use crate::layout::Layout;

/// How far the start came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    /// The start is under way, or was cut off.
    Starting,
    /// All nodes were ready.
    Up,
}

/// What is known of the cluster without asking it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// How far the start came.
    pub phase: Phase,
    /// How many nodes it has.
    pub nodes: u8,
    /// The program it runs.
    pub kubernetes: PathBuf,
}

impl Record {
    /// The record of the machine's cluster. One that makes no sense is like none: the cluster is then made anew.
    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>, FileError> {
        let text = files::read(&layout.record())?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Keeps it.
    pub(crate) fn write(&self, layout: &Layout) -> Result<(), FileError> {
        files::write(&layout.record(), serde_json::json!(self).to_string())
    }
}
