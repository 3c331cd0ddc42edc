//! Keeps the machine's kernel settings as they were found, as kubelets change some of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::files::{self, FileError};
use crate::layout::Layout;

/// What a kubelet sets when it starts.
const CHANGED: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// Notes the settings down, unless a run that was cut off has done so: what is there now may be its doing.
pub(crate) fn record(layout: &Layout) -> Result<(), FileError> {
    if files::read(&layout.kernel_settings())?.is_some() {
        return Ok(());
    }
    let read = |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name)).ok();
    let found: BTreeMap<&str, String> =
        CHANGED.into_iter().filter_map(|name| Some((name, read(name)?.trim().to_owned()))).collect();
    files::write(&layout.kernel_settings(), serde_json::json!(found).to_string())
}

/// Puts them back.
pub(crate) fn restore(layout: &Layout) -> Result<(), FileError> {
    let Some(recorded) = files::read(&layout.kernel_settings())? else { return Ok(()) };
    let recorded: BTreeMap<String, String> = serde_json::from_str(&recorded).unwrap_or_default();
    for (name, value) in recorded.iter().filter(|(name, _)| CHANGED.contains(&name.as_str())) {
        // One that cannot be written could not be changed either.
        let _ = fs::write(Path::new("/proc/sys").join(name), value);
    }
    files::remove(&layout.kernel_settings())
}
