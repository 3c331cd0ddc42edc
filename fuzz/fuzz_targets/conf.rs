//! No name or value makes more than one line, and comparing values survives anything.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use valkey::conf::{equivalent, render};

fuzz_target!(|data: (String, String, String)| {
    let (name, wanted, reported) = data;
    if let Ok(text) = render(&BTreeMap::from([(name.clone(), wanted.clone())])) {
        assert!(text.ends_with('\n') && text.matches('\n').count() == 1 && text.is_ascii());
    }
    assert!(equivalent(&name, &wanted, &wanted));
    let _ = equivalent(&name, &wanted, &reported);
});
