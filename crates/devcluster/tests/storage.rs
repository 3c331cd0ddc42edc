//! Works on real loop devices: needs root.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use devcluster::storage::{Disks, cleanup, remount};

const MEBIBYTE: u64 = 1 << 20;

/// A folder for disks, released even when a test fails.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = cleanup(self.path());
    }
}

/// Writes until the disk says no, and returns how much it took.
fn fill(path: &Path) -> u64 {
    let mut file = File::create(path).expect("the file is created");
    let chunk = vec![7; 1 << 16];
    let mut written = 0;
    loop {
        match file.write(&chunk).and_then(|count| file.sync_data().map(|()| count)) {
            Ok(count) => written += count as u64,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull);
                return written;
            }
        }
    }
}

#[test]
fn a_disk_is_full_when_it_is_full_grows_while_mounted_and_goes() {
    let directory = Folder::new();
    let disks = Disks::open(directory.path()).expect("the folder is made");
    disks.create("one", 32 * MEBIBYTE).expect("the disk is made");
    disks.create("one", 32 * MEBIBYTE).expect("making it again changes nothing");

    let file = disks.mount_point("one").join("file");
    let small = fill(&file);
    assert!((20 * MEBIBYTE..32 * MEBIBYTE).contains(&small), "{small}");
    disks.grow("one", 128 * MEBIBYTE).expect("the disk grows while it is mounted and full");
    let large = fill(&file);
    assert!((100 * MEBIBYTE..128 * MEBIBYTE).contains(&large), "{large}");
    disks.grow("one", 64 * MEBIBYTE).expect("a smaller size is no error");
    assert_eq!(fs::metadata(&file).expect("the file is still there").len(), large);

    disks.remove("one").expect("the disk is removed");
    disks.remove("one").expect("removing it again changes nothing");
    assert_eq!(disks.list().expect("the folder can be read"), []);
}

#[test]
fn disks_can_be_unmounted_without_a_cluster_and_mounted_again() {
    let directory = Folder::new();
    let disks = Disks::open(directory.path()).expect("the folder is made");
    for volume in ["one", "two"] {
        disks.create(volume, MEBIBYTE / 2).expect("even the smallest disk is made");
        fs::write(disks.mount_point(volume).join("file"), volume).expect("the disk can be written");
    }
    // A kubelet shows the disk to a pod at a second place.
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    devcluster::command::run("mount", [Path::new("--bind"), &disks.mount_point("one"), &elsewhere])
        .expect("a second mount");
    let held_open = File::open(elsewhere.join("file")).expect("the file opens");

    let mounted = || disks.list().expect("the folder can be read").iter().filter(|disk| disk.mounted).count();
    cleanup(directory.path()).expect("everything is unmounted");
    assert_eq!(mounted(), 0);
    assert!(!elsewhere.join("file").exists());
    drop(held_open);

    remount(directory.path()).expect("everything is mounted again");
    assert_eq!(mounted(), 2);
    assert_eq!(fs::read_to_string(disks.mount_point("two").join("file")).expect("the content stayed"), "two");
    cleanup(directory.path()).expect("everything is unmounted again");
    cleanup(Path::new("/no/such/folder")).expect("nothing to do");
}
