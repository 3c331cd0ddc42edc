//! Starting and stopping the cluster of this machine, also when a start is cut off. Takes down what runs: needs root.

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

fn devcluster(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_devcluster"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = devcluster(folder, arguments);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "devcluster {}: {text}", arguments.join(" "));
    text
}

/// Start, and kill the starting program after a while: whatever it had begun is left as it is.
fn start_and_cut_off(folder: &Path, after: Duration) {
    let mut starting = Command::new(env!("CARGO_BIN_EXE_devcluster"))
        .current_dir(folder)
        .arg("up")
        .spawn()
        .expect("the program starts");
    thread::sleep(after);
    starting.kill().expect("it can be killed");
    starting.wait().expect("it has ended");
}

/// From the last line of the status: `all  932 MiB (RSS 1967 MiB)`.
fn resident_mebibytes(status: &str) -> u64 {
    let total =
        status.lines().rev().find_map(|line| line.strip_prefix("all")).expect("a line with the total");
    let (_, resident) = total.split_once("RSS ").expect("resident memory");
    resident.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn an_interrupted_start_leaves_the_machine_clean() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    succeeds(folder.path(), &["down"]);
    for tenths in [3, 15, 40, 70] {
        start_and_cut_off(folder.path(), Duration::from_millis(tenths * 100));
        succeeds(folder.path(), &["down"]);
        let left = succeeds(folder.path(), &["check-clean"]);
        assert_eq!(left.trim(), "", "after {tenths} tenths of a second");
    }
}

#[test]
fn a_warm_start_is_quick_small_and_can_be_repeated() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    succeeds(folder.path(), &["down"]);
    start_and_cut_off(folder.path(), Duration::from_secs(4));
    let begun = Instant::now();
    succeeds(folder.path(), &["up"]);
    let took = begun.elapsed();
    assert!(took <= Duration::from_secs(25), "a start after one that was cut off took {took:?}");
    let kubectl = folder.path().join(".devcluster/bin/kubectl");
    let nodes = Command::new(kubectl)
        .env("KUBECONFIG", folder.path().join(".devcluster/kubeconfig"))
        .args(["get", "nodes", "-o", "jsonpath={.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}"])
        .output()
        .expect("kubectl starts");
    assert_eq!(String::from_utf8_lossy(&nodes.stdout), "zone-a zone-b zone-c");

    let begun = Instant::now();
    succeeds(folder.path(), &["up"]);
    assert!(begun.elapsed() <= Duration::from_secs(3), "a second start took {:?}", begun.elapsed());

    let status = succeeds(folder.path(), &["status"]);
    println!("started in {took:?}\n{status}");
    let mebibytes = resident_mebibytes(&status);
    assert!(mebibytes <= 2560, "three nodes take {mebibytes} MiB");
    succeeds(folder.path(), &["down"]);
    assert_eq!(succeeds(folder.path(), &["check-clean"]).trim(), "");
}
