//! The program puts itself into the shared directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const AGENT: &str = env!("CARGO_BIN_EXE_valkey-agent");

#[test]
fn a_copy_can_be_run_and_replaced() {
    let directory = tempfile::tempdir().expect("should make a directory");
    let copy = directory.path().join("valkey-agent");
    for _ in 0..2 {
        let init =
            Command::new(AGENT).arg("init").arg("--to").arg(directory.path()).output().expect("should start");
        assert!(init.status.success(), "{init:?}");
        assert_eq!(fs::metadata(&copy).expect("should be there").permissions().mode() & 0o7777, 0o555);
        assert_eq!(fs::read_dir(directory.path()).expect("should list").count(), 1);
        let version = Command::new(&copy).arg("--version").output().expect("should start");
        assert!(version.status.success(), "{version:?}");
    }
    assert_eq!(fs::read(&copy).expect("should read"), fs::read(AGENT).expect("should read"));
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let init = Command::new(AGENT).args(["init", "--to", "/nowhere"]).output().expect("should start");
    let said = String::from_utf8_lossy(&init.stderr);
    assert_eq!(init.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        "valkey-agent: failed to copy this program to /nowhere/valkey-agent: No such file or directory (os error 2)\n"
    );
}
