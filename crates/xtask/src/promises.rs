//! Every promise in `docs/promises.md` names the test that holds it; that test exists, and so does the file it is said to be
//! in.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::architecture::rust_files;

const FILE: &str = "docs/promises.md";

/// Tests and files that are named and do not exist.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let promises = fs::read_to_string(root.join(FILE)).with_context(|| format!("failed to read {FILE}"))?;
    let mut code = String::new();
    for file in rust_files(&root.join("crates"))? {
        code.push_str(
            &fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?,
        );
    }
    let missing = named_tests(&promises).filter(|name| !code.contains(&format!("fn {name}(")));
    let missing = missing.map(|name| format!("{FILE} names the test `{name}`, which does not exist"));
    let lost = named_paths(&promises).filter(|path| !root.join(path).exists());
    let lost = lost.map(|path| format!("{FILE} names `{path}`, which does not exist"));
    Ok(missing.chain(lost).collect())
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    in_backticks(text).filter(|word| word.starts_with("crates/"))
}

/// Words in backticks that look like the name of a test: a sentence in snake case.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    in_backticks(text).filter(|word| {
        word.matches('_').count() >= 2
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sentences_in_backticks_are_tests() {
        let text = "| it works | `it_really_does_work`, `make test`, `snake_case` in `crates/api` |";
        assert_eq!(named_tests(text).collect::<Vec<_>>(), ["it_really_does_work"]);
        assert_eq!(named_paths(text).collect::<Vec<_>>(), ["crates/api"]);
    }

    #[test]
    fn what_does_not_exist_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::create_dir_all(root.join("crates/api")).unwrap();
        fs::write(root.join("crates/api/a.rs"), "fn it_does_work() {}").unwrap();
        fs::write(
            root.join(FILE),
            "`crates/api/a.rs`: `it_does_work`; `crates/api/b.rs`: `it_does_not_work`",
        )
        .unwrap();
        let found = problems(root).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("`it_does_not_work`") && found[1].contains("`crates/api/b.rs`"),
            "{found:?}"
        );
    }
}
