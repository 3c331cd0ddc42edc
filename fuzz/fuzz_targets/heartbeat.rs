//! No message can end the operator, and what is read can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::heartbeat::{Happened, Heartbeat, Reply};

fuzz_target!(|data: &[u8]| {
    if let Ok(heartbeat) = serde_json::from_slice::<Heartbeat>(data) {
        let text = serde_json::to_vec(&heartbeat).expect("plain data can be written");
        let again: Heartbeat = serde_json::from_slice(&text).expect("what was written can be read");
        assert!(again == heartbeat);
    }
    let _ = serde_json::from_slice::<Happened>(data);
    let _ = serde_json::from_slice::<Reply>(data);
});
