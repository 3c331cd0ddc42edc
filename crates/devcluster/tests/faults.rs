//! Breaks and mends real things on this machine: needs root.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use devcluster::command::run;
use devcluster::faults::{Fault, Faults, Fill, Freeze, Partition, Side};
use devcluster::storage::{Disks, cleanup};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Ports that take connections at the far end of the cable, and the one that answers packets.
const PORTS: [u16; 2] = [6379, 6380];
const PACKET_PORT: u16 = 7000;

#[test]
fn a_full_disk_refuses_everything_until_it_is_freed() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let disks = Disks::open(folder.path()).expect("the folder is made");
    disks.create("one", 64 << 20).expect("the disk is made");
    let mount = disks.mount_point("one");
    let faults = Faults::open(&folder.path().join("faults")).expect("the folder is made");

    let full = faults.begin(Fault::Fill(Fill { mount: mount.clone() })).expect("the disk is filled");
    let refused = std::fs::write(mount.join("file"), vec![1; 1 << 16]).expect_err("nothing fits");
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    full.heal().expect("the disk is freed");
    std::fs::write(mount.join("file"), vec![1; 1 << 20]).expect("there is space again");
    cleanup(folder.path()).expect("everything is unmounted");
}

/// A control group with one process that counts.
struct Group {
    folder: PathBuf,
    process: Child,
}

impl Group {
    fn new(output: &Path) -> Self {
        let folder = PathBuf::from("/sys/fs/cgroup/freezer/devcluster-faults-test");
        std::fs::create_dir_all(&folder).expect("a control group of version 1");
        let script = "echo $$ > $0/cgroup.procs; while :; do echo x >> $1; sleep 0.01; done";
        let mut command = Command::new("sh");
        let process = command.args(["-c", script]).arg(&folder).arg(output).spawn().expect("a shell");
        Self { folder, process }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        thread::sleep(Duration::from_millis(100));
        let _ = std::fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_frozen_group_stands_still_until_it_is_thawed() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let output = folder.path().join("output");
    let group = Group::new(&output);
    let faults = Faults::open(&folder.path().join("faults")).expect("the folder is made");
    let count = || std::fs::metadata(&output).map_or(0, |data| data.len());
    let pause = || thread::sleep(Duration::from_millis(300));
    pause();

    let frozen = faults.begin(Fault::Freeze(Freeze { group: group.folder.clone() })).expect("it freezes");
    let before = count();
    assert!(before > 0);
    pause();
    assert_eq!(count(), before);
    frozen.heal().expect("it thaws");
    pause();
    assert!(count() > before);
}

/// Two network namespaces with a cable between them.
struct Cable {
    names: [String; 2],
}

impl Cable {
    fn new() -> Self {
        let names = ["1", "2"].map(|end| format!("vkfault{end}"));
        let cable = Self { names };
        let [one, two] = &cable.names;
        cable.remove();
        for commands in [
            format!("netns add {one}"),
            format!("netns add {two}"),
            format!("link add eth0 netns {one} type veth peer name eth0 netns {two}"),
        ] {
            run("ip", commands.split(' ')).expect("the network is laid");
        }
        for (name, address) in [(one, "10.99.0.1/24"), (two, "10.99.0.2/24")] {
            run("ip", ["-n", name, "addr", "add", address, "dev", "eth0"]).expect("an address");
            run("ip", ["-n", name, "link", "set", "eth0", "up"]).expect("the link is up");
        }
        cable
    }

    fn side(&self, end: usize) -> Side {
        let namespace = Path::new("/run/netns").join(&self.names[end]);
        Side { namespace, addresses: vec![format!("10.99.0.{}", end + 1)] }
    }

    /// Runs `work` at one end. A namespace belongs to a thread, so this takes one of its own.
    fn at<T: Send>(&self, end: usize, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(self.side(end).namespace).expect("the namespace is there");
        let enter = move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).expect("the thread may enter");
            work()
        };
        thread::scope(|scope| scope.spawn(enter).join()).expect("no panic at this end")
    }

    /// Answers every packet and every connection at the second end, until the test is over.
    fn answer(&self) {
        let (packets, connections) = self.at(1, || {
            let connections = PORTS.map(|port| TcpListener::bind(("10.99.0.2", port)).expect("a port"));
            (UdpSocket::bind(("10.99.0.2", PACKET_PORT)).expect("a port"), connections)
        });
        thread::spawn(move || {
            while let Ok((_, from)) = packets.recv_from(&mut [0]) {
                let _ = packets.send_to(&[0], from);
            }
        });
        for listener in connections {
            thread::spawn(move || while listener.accept().is_ok() {});
        }
    }

    /// How many of `count` packets from the first end are answered.
    fn answered(&self, count: usize) -> usize {
        let socket = self.at(0, || UdpSocket::bind(("10.99.0.1", 0)).expect("a port"));
        socket.set_read_timeout(Some(Duration::from_millis(30))).expect("a timeout");
        socket.connect(("10.99.0.2", PACKET_PORT)).expect("a peer");
        let ask = |_: &usize| socket.send(&[0]).and_then(|_| socket.recv(&mut [0])).is_ok();
        (0..count).filter(ask).count()
    }

    /// Whether a connection from the first end to this port of the second comes about.
    fn connects(&self, port: u16) -> bool {
        let address = ([10, 99, 0, 2], port).into();
        self.at(0, || TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok())
    }

    fn remove(&self) {
        for name in &self.names {
            let _ = run("ip", ["netns", "delete", name]);
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.remove();
    }
}

#[test]
fn packets_are_lost_while_the_fault_is_in_place() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let faults = Faults::open(folder.path()).expect("the folder is made");
    let cable = Cable::new();
    let (one, two) = (cable.side(0), [cable.side(1)]);
    let answered = |partition: Partition, count| {
        let active = faults.begin(Fault::Partition(partition)).expect("the network breaks");
        let answered = cable.answered(count);
        active.heal().expect("the network is mended");
        answered
    };
    cable.answer();
    while cable.answered(1) == 0 {}

    assert_eq!(answered(Partition::both_ways(&one, &two), 3), 0);
    assert_eq!(answered(Partition::one_way_out(&one, &two), 3), 0);
    assert_eq!(answered(Partition::one_way_in(&one, &two), 3), 0);
    let some = answered(Partition::one_way_out(&one, &two).losing(50), 200);
    assert!((50..150).contains(&some), "{some}");
    assert_eq!(cable.answered(3), 3);

    let one_port = Partition::both_ways(&one, &two).on_ports(&PORTS[..1]);
    let active = faults.begin(Fault::Partition(one_port)).expect("the network breaks");
    assert_eq!(PORTS.map(|port| cable.connects(port)), [false, true]);
    drop(active);
    assert_eq!(PORTS.map(|port| cable.connects(port)), [true, true]);

    std::mem::forget(faults.begin(Fault::Partition(Partition::both_ways(&one, &two))));
    assert_eq!(cable.answered(2), 0);
    assert_eq!(faults.heal_all().expect("the note is enough"), 1);
    assert_eq!(cable.answered(2), 2);
}
