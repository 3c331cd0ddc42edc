//! No INFO reply can end the program.

#![no_main]

use libfuzzer_sys::fuzz_target;
use valkey::{Info, Support};

fuzz_target!(|data: &[u8]| {
    let info = Info::parse(&String::from_utf8_lossy(data));
    let _ = Support::of(&info.server());
    let _ = (info.replication(), info.persistence(), info.cluster_enabled());
});
