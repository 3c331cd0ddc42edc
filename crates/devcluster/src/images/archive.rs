//! The image archive: one layer and its metadata in a tar that `ctr`, `docker load` and `kind load` all read.
//!
//! It carries both descriptions of its content. The OCI one gives the manifest a digest that is known before any
//! node has seen the image, so a node that has it already can be told apart; the Docker one is for older readers.

use std::io::{self, Read};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::config::ImageConfig;
use super::tree::Tree;

const DOCKER_MANIFEST: &str = "manifest.json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// The bytes of an archive of one image under the name `reference`, the same for the same input.
pub(super) fn pack(reference: &str, config: &ImageConfig, tree: &Tree) -> io::Result<Vec<u8>> {
    let layer = Blob::new(tree.to_tar()?);
    let config = Blob::new(serde_json::to_vec(&config.to_json(&layer.digest()))?);
    let manifest = Blob::new(serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": config.descriptor(OCI_CONFIG),
        "layers": [layer.descriptor(OCI_LAYER)],
    }))?);
    let mut entry = manifest.descriptor(OCI_MANIFEST);
    entry["annotations"] = json!({
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": tag(reference),
    });
    let index = json!({ "schemaVersion": 2, "manifests": [entry] });
    let docker = json!([{ "Config": config.path(), "RepoTags": [reference], "Layers": [layer.path()] }]);

    let files = [
        // First, so that the digest can be read without passing the layer.
        ("index.json".to_owned(), serde_json::to_vec(&index)?),
        ("oci-layout".to_owned(), serde_json::to_vec(&json!({ "imageLayoutVersion": "1.0.0" }))?),
        (DOCKER_MANIFEST.to_owned(), serde_json::to_vec(&docker)?),
        (manifest.path(), manifest.content),
        (config.path(), config.content),
        (layer.path(), layer.content),
    ];
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content.as_slice())?;
    }
    builder.into_inner()
}

/// The digest of the manifest in an archive that [`pack`] wrote: what containerd shows for the image.
pub(super) fn manifest_digest(archive: impl Read) -> io::Result<String> {
    let mut archive = tar::Archive::new(archive);
    let first = archive.entries()?.next().ok_or_else(|| invalid("the archive is empty"))??;
    let index: Value = serde_json::from_reader(first)?;
    let digest = index["manifests"][0]["digest"].as_str();
    digest.map(str::to_owned).ok_or_else(|| invalid("the archive names no manifest"))
}

/// The files in an archive that [`pack`] wrote.
pub(super) fn files(archive: impl Read) -> io::Result<Tree> {
    let mut archive = tar::Archive::new(archive);
    let mut layer = String::new();
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        if path == DOCKER_MANIFEST {
            let manifest: Value = serde_json::from_reader(entry)?;
            manifest[0]["Layers"][0].as_str().unwrap_or_default().clone_into(&mut layer);
        } else if path == layer {
            return Tree::from_tar(entry);
        }
    }
    Err(invalid("the archive has no layer"))
}

/// The SHA-256 of `content` in hexadecimal digits.
pub(super) fn sha256_hex(content: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(content).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn tag(reference: &str) -> &str {
    reference.rsplit_once(':').map_or("latest", |(_, tag)| tag)
}

struct Blob {
    hex: String,
    content: Vec<u8>,
}

impl Blob {
    fn new(content: Vec<u8>) -> Self {
        Self { hex: sha256_hex(&content), content }
    }

    fn digest(&self) -> String {
        format!("sha256:{}", self.hex)
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.hex)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": self.digest(), "size": self.content.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let tree = Tree::default().file("/program", 0o755, "binary");
        let config = ImageConfig { entrypoint: vec!["/program".into()], ..ImageConfig::default() };
        pack("docker.io/library/sample:1", &config, &tree).unwrap()
    }

    fn read(archive: &[u8], wanted: &str) -> Vec<u8> {
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.path().unwrap().to_str() == Some(wanted) {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                return content;
            }
        }
        panic!("no {wanted} in the archive");
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        assert_eq!(sample(), sample());
    }

    #[test]
    fn the_files_can_be_read_back() {
        assert!(files(sample().as_slice()).unwrap().contains("/program"));
    }

    #[test]
    fn both_descriptions_lead_to_the_same_layer() {
        let archive = sample();
        let docker: Value = serde_json::from_slice(&read(&archive, "manifest.json")).unwrap();
        let layer = docker[0]["Layers"][0].as_str().unwrap();
        let digest = manifest_digest(archive.as_slice()).unwrap();
        let manifest = read(&archive, &digest.replace("sha256:", "blobs/sha256/"));
        assert_eq!(format!("sha256:{}", sha256_hex(&manifest)), digest);
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let from_oci = manifest["layers"][0]["digest"].as_str().unwrap();
        assert_eq!(from_oci.replace("sha256:", "blobs/sha256/"), layer);

        let config: Value =
            serde_json::from_slice(&read(&archive, docker[0]["Config"].as_str().unwrap())).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], from_oci);
        assert_eq!(sha256_hex(&read(&archive, layer)), from_oci.strip_prefix("sha256:").unwrap());
        assert_eq!(docker[0]["RepoTags"][0], "docker.io/library/sample:1");
    }
}
