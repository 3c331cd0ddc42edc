//! How one image is made: an optional Debian base, files over it, and how the program is started.

use std::path::Path;

use snafu::ResultExt;

use super::archive::{pack, sha256_hex};
use super::config::ImageConfig;
use super::debian::RootFilesystem;
use super::error::{ImageError, PackSnafu};
use super::store::{self, Archive};
use super::tree::Tree;

/// Everything that decides an image's content.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    /// The image's name in full.
    pub reference: String,
    /// Packages below the files; none for an image that holds its files only.
    pub base: Option<RootFilesystem>,
    /// Files laid over the base.
    pub files: Tree,
    /// How the program is started.
    pub config: ImageConfig,
}

impl Recipe {
    /// The image, built when the cache lacks it.
    pub(super) fn archive(&self, cache: &Path) -> Result<Archive, ImageError> {
        let reference = &self.reference;
        store::archive(cache, reference, &self.key()?, |scratch| {
            let base = match &self.base {
                Some(base) => base.fetch(scratch)?,
                None => Tree::default(),
            };
            pack(reference, &self.config, &base.overlaid(&self.files)).context(PackSnafu { reference })
        })
    }

    fn key(&self) -> Result<String, ImageError> {
        let files = self.files.to_tar().context(PackSnafu { reference: &self.reference })?;
        let base = self.base.map(|base| base.key()).unwrap_or_default();
        let config = self.config.to_json("").to_string();
        Ok(store::key(&[&self.reference, &base, &sha256_hex(&files), &config]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Recipe {
        Recipe {
            reference: "docker.io/library/sample:1".into(),
            base: None,
            files: Tree::default().file("/a", 0o644, "a"),
            config: ImageConfig::default(),
        }
    }

    #[test]
    fn every_part_decides_the_key() {
        let key = sample().key().unwrap();
        assert_eq!(sample().key().unwrap(), key);
        let base = Some(RootFilesystem { suite: "forky", packages: &[], program: "" });
        let config = ImageConfig { user: "1:1".into(), ..ImageConfig::default() };
        let others = [
            Recipe { reference: "docker.io/library/sample:2".into(), ..sample() },
            Recipe { base, ..sample() },
            Recipe { files: Tree::default(), ..sample() },
            Recipe { config, ..sample() },
        ];
        assert!(others.iter().all(|other| other.key().unwrap() != key));
    }

    #[test]
    fn an_image_without_a_base_needs_no_tool() {
        let cache = tempfile::tempdir().unwrap();
        let archive = sample().archive(cache.path()).unwrap();
        assert_eq!(archive.reference, "docker.io/library/sample:1");
    }
}
