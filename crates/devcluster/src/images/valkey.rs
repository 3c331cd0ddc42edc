//! The Valkey server image: Debian's packages laid out like the stock image.

use super::config::ImageConfig;
use super::debian::RootFilesystem;
use super::recipe::Recipe;
use super::tree::Tree;

/// The user of the stock image.
const USER: u32 = 999;

/// Starts the server when only its options or a configuration file are given, as users of the stock image expect.
const ENTRYPOINT: &str = r#"#!/bin/sh
set -e
case "$1" in
    -* | *.conf) set -- valkey-server "$@" ;;
esac
exec "$@"
"#;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
    valkey:x:999:999:valkey:/data:/usr/sbin/nologin\n\
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

const GROUP: &str = "root:x:0:\nvalkey:x:999:\nnogroup:x:65534:\n";

/// Name in /usr/local/bin, and the packaged program behind it. The server decides by its name what it is.
const PROGRAMS: &[(&str, &str)] = &[
    ("valkey-server", "valkey-server"),
    ("valkey-sentinel", "valkey-server"),
    ("valkey-cli", "valkey-cli"),
    ("valkey-benchmark", "valkey-benchmark"),
    ("valkey-check-aof", "valkey-check-aof"),
    ("valkey-check-rdb", "valkey-check-rdb"),
];

const PACKAGES: &[&str] = &[
    "valkey-server",
    "valkey-tools",
    // The smallest packages that satisfy what the server's packages depend on.
    "systemd-standalone-sysusers",
    "systemd-standalone-tmpfiles",
];

/// A version of Valkey that is packaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValkeyVersion {
    /// 8.1, from Debian 13.
    V8_1,
    /// 9.1, from Debian 14.
    V9_1,
}

impl ValkeyVersion {
    /// Every version, oldest first.
    pub const ALL: [Self; 2] = [Self::V8_1, Self::V9_1];

    /// The version as an image tag.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::V8_1 => "8.1",
            Self::V9_1 => "9.1",
        }
    }

    /// The image's name in full.
    pub fn reference(self) -> String {
        format!("docker.io/valkey/valkey:{}", self.tag())
    }

    const fn root_filesystem(self) -> RootFilesystem {
        let suite = match self {
            Self::V8_1 => "trixie",
            Self::V9_1 => "forky",
        };
        RootFilesystem { suite, packages: PACKAGES, program: "usr/bin/valkey-server" }
    }
}

/// How the image of one version is made.
pub(super) fn recipe(version: ValkeyVersion) -> Recipe {
    let config = ImageConfig {
        // The stock image starts as root too and gives that up itself; pods say who they run as.
        user: String::new(),
        working_dir: "/data".into(),
        entrypoint: vec!["docker-entrypoint.sh".into()],
        cmd: vec!["valkey-server".into()],
        ports: vec![6379],
        volumes: vec!["/data".into()],
    };
    Recipe { reference: version.reference(), base: Some(version.root_filesystem()), files: files(), config }
}

fn files() -> Tree {
    let tree = Tree::default()
        .file("/etc/passwd", 0o644, PASSWD)
        .file("/etc/group", 0o644, GROUP)
        .file("/usr/local/bin/docker-entrypoint.sh", 0o755, ENTRYPOINT)
        .directory("/data", 0o755, USER);
    PROGRAMS.iter().fold(tree, |tree, (name, program)| {
        tree.symlink(&format!("/usr/local/bin/{name}"), &format!("/usr/bin/{program}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_where_the_stock_image_has_them() {
        let files = files();
        for program in ["valkey-server", "valkey-cli", "valkey-benchmark", "docker-entrypoint.sh"] {
            assert!(files.contains(&format!("/usr/local/bin/{program}")), "{program}");
        }
    }

    #[test]
    fn the_entrypoint_adds_the_server_only_when_it_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("entrypoint");
        let server = directory.path().join("valkey-server");
        std::fs::write(&script, ENTRYPOINT).unwrap();
        std::fs::write(&server, "#!/bin/sh\necho server \"$@\"\n").unwrap();
        crate::command::run("chmod", ["+x".as_ref(), server.as_os_str()]).unwrap();
        let run = |arguments: &[&str]| {
            let path = format!("{}:/usr/bin:/bin", directory.path().display());
            let mut command = std::process::Command::new("sh");
            crate::command::run_command(command.arg(&script).args(arguments).env("PATH", path)).unwrap()
        };
        assert_eq!(run(&["--port", "1"]), "server --port 1\n");
        assert_eq!(run(&["/etc/valkey.conf"]), "server /etc/valkey.conf\n");
        assert_eq!(run(&["valkey-server", "x"]), "server x\n");
        assert_eq!(run(&["echo", "other"]), "other\n");
    }
}
