//! The metrics exporter image, with the program where the stock image has it.

use super::config::ImageConfig;
use super::debian::RootFilesystem;
use super::recipe::Recipe;
use super::tree::Tree;

/// The image's name in full.
pub const EXPORTER_REFERENCE: &str = "docker.io/oliver006/redis_exporter:v1.86.0";

pub(super) fn recipe() -> Recipe {
    let program = "usr/bin/prometheus-redis-exporter";
    let base = RootFilesystem { suite: "forky", packages: &["prometheus-redis-exporter"], program };
    let config = ImageConfig {
        user: "59000:59000".into(),
        entrypoint: vec!["/redis_exporter".into()],
        ports: vec![9121],
        ..ImageConfig::default()
    };
    let files = Tree::default().symlink("/redis_exporter", &format!("/{program}"));
    Recipe { reference: EXPORTER_REFERENCE.into(), base: Some(base), files, config }
}
