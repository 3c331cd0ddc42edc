//! What an image says about how its program is started.

use serde::Serialize;
use serde_json::{Value, json};

/// The part of an image's configuration that a container runtime acts on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImageConfig {
    /// `uid:gid`, root when empty.
    pub user: String,
    /// Where the program starts, `/` when empty.
    pub working_dir: String,
    /// The program and the arguments that always come first.
    pub entrypoint: Vec<String>,
    /// The arguments used when the container gives none.
    pub cmd: Vec<String>,
    /// TCP ports the program listens on: for the reader, nothing opens them.
    pub ports: Vec<u16>,
    /// Directories a runtime keeps writable even when the root filesystem is read-only.
    pub volumes: Vec<String>,
}

impl ImageConfig {
    /// The OCI image configuration for an image with one layer of this digest.
    pub fn to_json(&self, layer_digest: &str) -> Value {
        let ports = keys(self.ports.iter().map(|port| format!("{port}/tcp")));
        let volumes = keys(self.volumes.iter().cloned());
        json!({
            "created": "1970-01-01T00:00:00Z",
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "User": self.user,
                "WorkingDir": self.working_dir,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": self.entrypoint,
                "Cmd": self.cmd,
                "ExposedPorts": ports,
                "Volumes": volumes,
            },
            "rootfs": { "type": "layers", "diff_ids": [layer_digest] },
        })
    }
}

/// The image format writes a set as an object with empty values.
fn keys(names: impl Iterator<Item = String>) -> Value {
    Value::Object(names.map(|name| (name, json!({}))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_objects() {
        let config =
            ImageConfig { ports: vec![6379], volumes: vec!["/data".into()], ..ImageConfig::default() };
        let json = config.to_json("sha256:abc");
        assert_eq!(json["config"]["ExposedPorts"], json!({ "6379/tcp": {} }));
        assert_eq!(json["config"]["Volumes"], json!({ "/data": {} }));
        assert_eq!(json["rootfs"]["diff_ids"], json!(["sha256:abc"]));
    }
}
