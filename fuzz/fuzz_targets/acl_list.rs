//! No list of users can end the program, or have `default` or the user that names the file deleted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use valkey::acl::{AclChange, DEFAULT_USER, Listed, REVISION_USER, difference, loaded_revision};

fuzz_target!(|data: &[u8]| {
    let lines: Vec<String> = String::from_utf8_lossy(data).lines().map(str::to_owned).collect();
    let listed = Listed::parse(&lines);
    assert!(listed.users.len() + listed.unreadable <= lines.len());
    for change in difference(&[], &listed) {
        let AclChange::Delete { name } = change else { panic!("nobody is wanted") };
        assert!(name != DEFAULT_USER && name != REVISION_USER && listed.get(&name).is_some());
    }
    let _ = loaded_revision(&listed);
});
