//! Builds the real images: needs root, `mmdebstrap` and a package mirror, and takes half a minute the first time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use devcluster::images::{StockImage, ValkeyVersion, host_programs, import, stock_images};

fn cache() -> PathBuf {
    devcluster::cache::folder().expect("a cache")
}

fn say(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program starts");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn stock_images_are_built_once() {
    let first = stock_images(&cache()).expect("the images are built");
    assert_eq!(first.len(), StockImage::ALL.len());
    assert_eq!(stock_images(&cache()).expect("the images are found"), first);
}

#[test]
fn the_servers_run_on_this_machine_and_speak_tls() {
    for version in ValkeyVersion::ALL {
        let programs = host_programs(&cache(), version).expect("the programs are unpacked");
        let banner = say(&programs.server(), &["--version"]);
        assert!(banner.contains(&format!("v={}", version.tag())), "{banner}");
        // A server without TLS would refuse the directive itself; this one misses the certificate.
        let refusal = say(&programs.server(), &["--port", "0", "--tls-port", "1"]);
        assert!(refusal.contains("Failed to configure TLS"), "{refusal}");
        assert!(say(&programs.cli(), &["--help"]).contains("--tls"));
    }
}

/// A containerd of its own that ends with the test.
struct Containerd {
    process: Child,
    directory: tempfile::TempDir,
}

impl Containerd {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path();
        let [root, state, socket] =
            ["root", "state", "socket"].map(|name| path.join(name).display().to_string());
        let config = format!(
            "version = 2\nroot = {root:?}\nstate = {state:?}\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = {socket:?}\n"
        );
        std::fs::write(path.join("config.toml"), config).expect("the configuration is written");
        let mut command = Command::new("containerd");
        command.arg("--config").arg(path.join("config.toml")).stderr(Stdio::null());
        let process = command.spawn().expect("containerd starts");
        let containerd = Self { process, directory };
        while containerd.images().is_none() {
            std::thread::sleep(Duration::from_millis(100));
        }
        containerd
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn images(&self) -> Option<String> {
        let socket = self.socket();
        let output =
            Command::new("ctr").arg("-a").arg(socket).args(["-n", "k8s.io", "images", "ls"]).output();
        let output = output.expect("ctr starts");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn an_import_brings_the_digest_we_know_to_every_node() {
    let nodes = [Containerd::start(), Containerd::start()];
    let sockets: Vec<_> = nodes.iter().map(Containerd::socket).collect();
    let pause = StockImage::Pause.build(&cache()).expect("the image is built");
    for _ in 0..2 {
        import(Path::new("ctr"), &sockets, std::slice::from_ref(&pause)).expect("the nodes take the image");
        for node in &nodes {
            let images = node.images().expect("the node answers");
            assert!(images.contains(&pause.reference) && images.contains(&pause.digest), "{images}");
        }
    }
}
