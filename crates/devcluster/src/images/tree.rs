//! A file tree held in memory, written as a tar whose bytes depend on nothing but the tree.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use tar::{Archive, Builder, EntryType, Header};

/// Files, directories and symbolic links by path, the path without a leading slash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

/// One thing in a [`Tree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Permission bits.
    pub mode: u32,
    /// Owner, used for the group too.
    pub owner: u32,
    /// What it is.
    pub kind: Kind,
}

/// What an [`Entry`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file with its content.
    File(Vec<u8>),
    /// A symbolic link with its target.
    Symlink(String),
}

impl Tree {
    /// Reads a tar. Device nodes are left out: a container runtime makes its own.
    pub fn from_tar(tar: impl Read) -> io::Result<Self> {
        let mut tree = Self::default();
        for entry in Archive::new(tar).entries()? {
            let mut entry = entry?;
            let path = normalise(&entry.path()?.to_string_lossy());
            let link = entry.link_name()?.map(|target| target.to_string_lossy().into_owned());
            let kind = match entry.header().entry_type() {
                EntryType::Directory => Kind::Directory,
                EntryType::Regular => {
                    let mut content = Vec::new();
                    entry.read_to_end(&mut content)?;
                    Kind::File(content)
                }
                EntryType::Symlink => Kind::Symlink(link.unwrap_or_default()),
                // A second name of an earlier file: a copy says the same and needs no order among entries.
                EntryType::Link => match tree.entries.get(&normalise(&link.unwrap_or_default())) {
                    Some(target) => target.kind.clone(),
                    None => continue,
                },
                _ => continue,
            };
            if path.is_empty() {
                continue;
            }
            let header = entry.header();
            let owner = u32::try_from(header.uid()?).unwrap_or_default();
            tree.entries.insert(path, Entry { mode: header.mode()? & 0o7777, owner, kind });
        }
        Ok(tree)
    }

    /// Adds a file owned by root.
    #[must_use]
    pub fn file(self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        self.with(path, Entry { mode, owner: 0, kind: Kind::File(content.into()) })
    }

    /// Adds a directory.
    #[must_use]
    pub fn directory(self, path: &str, mode: u32, owner: u32) -> Self {
        self.with(path, Entry { mode, owner, kind: Kind::Directory })
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.with(path, Entry { mode: 0o777, owner: 0, kind: Kind::Symlink(target.to_owned()) })
    }

    /// Keeps only the paths (without a leading slash) that `keep` accepts.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.entries.retain(|path, _| keep(path));
    }

    /// Lays `upper` over this tree.
    #[must_use]
    pub fn overlaid(mut self, upper: &Self) -> Self {
        for (path, entry) in &upper.entries {
            // A directory added only as a parent must not undo the permissions of the one below.
            match (&entry.kind, self.entries.get(path).map(|lower| &lower.kind)) {
                (Kind::Directory, Some(Kind::Directory | Kind::Symlink(_))) => {}
                _ => drop(self.entries.insert(path.clone(), entry.clone())),
            }
        }
        self
    }

    /// Whether something is at `path`.
    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(&normalise(path))
    }

    /// The tree as a tar: sorted, and with no time of its own.
    pub fn to_tar(&self) -> io::Result<Vec<u8>> {
        let mut builder = Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mode(entry.mode);
            header.set_uid(entry.owner.into());
            header.set_gid(entry.owner.into());
            header.set_mtime(0);
            header.set_size(0);
            match &entry.kind {
                Kind::Directory => {
                    header.set_entry_type(EntryType::Directory);
                    builder.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
                Kind::File(content) => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_size(content.len() as u64);
                    builder.append_data(&mut header, path, content.as_slice())?;
                }
                Kind::Symlink(target) => {
                    header.set_entry_type(EntryType::Symlink);
                    builder.append_link(&mut header, path, target)?;
                }
            }
        }
        builder.into_inner()
    }

    /// Writes the tree below `directory`, owned by whoever runs this.
    pub fn unpack(&self, directory: &Path) -> io::Result<()> {
        let tar = self.to_tar()?;
        let mut archive = Archive::new(tar.as_slice());
        archive.set_preserve_permissions(true);
        archive.unpack(directory)
    }

    /// Adds an entry and the parents it lacks, so that no runtime has to guess their permissions.
    fn with(mut self, path: &str, entry: Entry) -> Self {
        let path = normalise(path);
        for (end, _) in path.match_indices('/') {
            let parent = Entry { mode: 0o755, owner: 0, kind: Kind::Directory };
            self.entries.entry(path[..end].to_owned()).or_insert(parent);
        }
        self.entries.insert(path, entry);
        self
    }
}

fn normalise(path: &str) -> String {
    path.trim_start_matches("./").trim_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tree {
        Tree::default()
            .symlink("/lib64", "usr/lib64")
            .file("/usr/bin/tool", 0o755, "content")
            .directory("/data", 0o750, 999)
    }

    #[test]
    fn a_tar_read_back_is_the_same_tree() {
        let tree = sample();
        assert_eq!(Tree::from_tar(tree.to_tar().unwrap().as_slice()).unwrap(), tree);
    }

    #[test]
    fn the_order_of_insertion_does_not_show() {
        let other = Tree::default()
            .directory("data/", 0o750, 999)
            .file("usr/bin/tool", 0o755, "content")
            .symlink("lib64", "usr/lib64");
        assert_eq!(other.to_tar().unwrap(), sample().to_tar().unwrap());
    }

    #[test]
    fn parents_are_added() {
        let tree = sample();
        assert!(tree.contains("/usr") && tree.contains("usr/bin"));
    }

    #[test]
    fn an_overlay_adds_files_and_leaves_directories_alone() {
        let lower = Tree::default().directory("/tmp", 0o1777, 0).file("/etc/group", 0o644, "old");
        let upper = Tree::default().file("/tmp/new", 0o644, "").file("/etc/group", 0o644, "new");
        let tree = lower.overlaid(&upper);
        assert_eq!(tree.entries["tmp"].mode, 0o1777);
        assert_eq!(tree.entries["etc/group"].kind, Kind::File(b"new".to_vec()));
        assert!(tree.contains("tmp/new"));
    }

    #[test]
    fn long_paths_survive() {
        let path = format!("{}/leaf", "d".repeat(90) + "/" + &"e".repeat(90));
        let tree = Tree::default().file(&path, 0o644, "x");
        assert!(Tree::from_tar(tree.to_tar().unwrap().as_slice()).unwrap().contains(&path));
    }

    #[test]
    fn a_hard_link_becomes_a_copy() {
        let mut builder = Builder::new(Vec::new());
        let mut file = Header::new_gnu();
        file.set_size(3);
        file.set_mode(0o644);
        file.set_uid(0);
        builder.append_data(&mut file, "./first", "abc".as_bytes()).unwrap();
        let mut link = Header::new_gnu();
        link.set_entry_type(EntryType::Link);
        link.set_size(0);
        link.set_mode(0o644);
        link.set_uid(0);
        builder.append_link(&mut link, "./second", "./first").unwrap();
        let tree = Tree::from_tar(builder.into_inner().unwrap().as_slice()).unwrap();
        assert_eq!(tree.entries["second"], tree.entries["first"]);
    }

    #[test]
    fn unpacks_with_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        sample().unpack(directory.path()).unwrap();
        let tool = directory.path().join("usr/bin/tool");
        assert_eq!(std::fs::metadata(&tool).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::read(tool).unwrap(), b"content");
    }
}
