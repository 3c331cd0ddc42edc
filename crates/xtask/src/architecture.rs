//! Rules of the house that the compiler does not know: pure files stay pure, and crates depend only downwards.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Where files that decide are kept apart from those that act.
const SOURCES: [&str; 2] = ["crates/operator/src", "crates/agent/src"];
/// Files that decide: everything they need is an argument.
const PURE_FILES: [&str; 28] = [
    "plan.rs",
    "validate.rs",
    "status.rs",
    "events.rs",
    "diagnose.rs",
    "overlay.rs",
    "start_rule.rs",
    "topology.rs",
    "directives.rs",
    "command.rs",
    "paths.rs",
    "numbers.rs",
    "passwords.rs",
    "rotation.rs",
    "rights.rs",
    "stored.rs",
    "held.rs",
    "pem.rs",
    "member.rs",
    "sight.rs",
    "standing.rs",
    "death.rs",
    "choice.rs",
    "acceptance.rs",
    "tenure.rs",
    "voters.rs",
    "lost.rs",
    "word.rs",
];
/// Folders that only decide or build.
const PURE_FOLDERS: [&str; 2] = ["build", "plan"];
/// What only something that talks to the world contains.
const IMPURE: [&str; 8] =
    ["async fn", ".await", "Client", "Api<", "::now()", "rand::", "std::env", "std::fs"];

/// Which of our crates a crate may use.
const MAY_USE: [(&str, &[&str]); 11] = [
    ("api", &[]),
    ("valkey", &[]),
    ("pki", &[]),
    ("proto", &[]),
    ("channel", &["pki"]),
    ("kit", &["api"]),
    ("operator", &["api", "valkey", "kit", "pki", "proto", "channel"]),
    ("agent", &["valkey", "pki", "proto", "channel"]),
    ("devcluster", &[]),
    ("e2e", &["api", "valkey", "kit", "operator", "devcluster", "pki", "channel"]),
    ("xtask", &["api", "operator"]),
];

/// Everything that breaks a rule.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut files = Vec::new();
    for folder in SOURCES {
        files.extend(rust_files(&root.join(folder))?);
    }
    for file in files {
        // Where the checkout is says nothing about its files.
        let inside = file.strip_prefix(root).unwrap_or(&file);
        if is_pure(inside) {
            let text =
                fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
            problems.extend(impurities(&inside.display().to_string(), &text));
        }
    }
    problems.extend(dependencies(root));
    Ok(problems)
}

pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

fn is_pure(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    PURE_FILES.contains(&name)
        || file
            .components()
            .any(|part| part.as_os_str().to_str().is_some_and(|part| PURE_FOLDERS.contains(&part)))
}

fn impurities(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // Its tests begin somewhere, and a moment to begin with is none that it decides by.
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    for (index, line) in shipped.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for word in IMPURE {
            if contains_word(code, word) {
                found.push(format!("{file}:{}: a pure file contains `{word}`", index + 1));
            }
        }
    }
    found
}

/// `.await`, but not `.awaiting_restart`.
fn contains_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(start, _)| {
        let after = code[start + word.len()..].chars().next();
        !word.ends_with(char::is_alphanumeric) || !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

fn dependencies(root: &Path) -> Vec<String> {
    let ours: Vec<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    let mut problems = Vec::new();
    for (name, allowed) in MAY_USE {
        let path = root.join("crates").join(name).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let normal = text.split("[dev-dependencies]").next().unwrap_or_default();
        for line in normal.lines() {
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let used = used.strip_prefix("valkey-").unwrap_or(used);
            if ours.contains(&used) && used != name && !allowed.contains(&used) {
                problems.push(format!("crates/{name} must not depend on {used}"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pure_file_that_awaits_is_found_and_a_comment_is_not() {
        assert_eq!(impurities("f", "let x = y.await; // why").len(), 1);
        assert!(impurities("f", "// nothing to .await here").is_empty());
        assert!(impurities("f", "plan.awaiting_restart").is_empty());
    }

    #[test]
    fn a_checkout_below_a_folder_called_build_makes_nothing_pure() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("build");
        let source = root.join("crates/operator/src/node");
        fs::create_dir_all(source.join("plan")).unwrap();
        fs::create_dir_all(root.join("crates/agent/src/gate")).unwrap();
        fs::write(source.join("act.rs"), "let x = y.await;").unwrap();
        assert_eq!(problems(&root).unwrap(), Vec::<String>::new());
        fs::write(source.join("plan/roll.rs"), "let x = y.await;").unwrap();
        let expected = "crates/operator/src/node/plan/roll.rs:1: a pure file contains `.await`";
        assert_eq!(problems(&root).unwrap(), [expected]);
        fs::remove_file(source.join("plan/roll.rs")).unwrap();
        fs::write(root.join("crates/agent/src/gate/start_rule.rs"), "Instant::now()").unwrap();
        let expected = "crates/agent/src/gate/start_rule.rs:1: a pure file contains `::now()`";
        assert_eq!(problems(&root).unwrap(), [expected]);
    }

    #[test]
    fn pure_files_are_known_by_name_and_by_folder() {
        assert!(is_pure(Path::new("crates/operator/src/node/plan.rs")));
        assert!(is_pure(Path::new("crates/operator/src/node/build/pod.rs")));
        assert!(is_pure(Path::new("crates/operator/src/cluster/topology.rs")));
        assert!(is_pure(Path::new("crates/operator/src/cluster/users/rotation.rs")));
        assert!(!is_pure(Path::new("crates/operator/src/cluster/users/remembered.rs")));
        assert!(!is_pure(Path::new("crates/operator/src/node/act.rs")));
    }
}
