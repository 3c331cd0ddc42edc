//! Every promise in `docs/promises.md` names the test that holds it, and that test exists.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::architecture::rust_files;

const FILE: &str = "docs/promises.md";

/// Tests that are promised and do not exist.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let promises = fs::read_to_string(root.join(FILE)).with_context(|| format!("failed to read {FILE}"))?;
    let mut code = String::new();
    for file in rust_files(&root.join("crates"))? {
        code.push_str(
            &fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?,
        );
    }
    let missing = named_tests(&promises).filter(|name| !code.contains(&format!("fn {name}(")));
    Ok(missing.map(|name| format!("{FILE} names the test `{name}`, which does not exist")).collect())
}

/// Words in backticks that look like the name of a test: a sentence in snake case.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|word| {
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
    }
}
