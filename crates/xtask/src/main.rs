//! Writes the generated files of this repository (`generate`) and checks them (`check`): current, compatible with
//! objects that are already stored, and the pure files pure.

mod api_docs;
mod architecture;
mod compatibility;
mod conditions;
mod crds;
mod examples;
mod manifests;
mod output;
mod permissions;
mod promises;
mod yaml;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write every generated file into the tree.
    Generate,
    /// Fail if a generated file is not current, if a CRD lost something stored objects may use, if a pure file does I/O, or if
    /// a promised test does not exist.
    Check,
}

fn main() -> Result<()> {
    let root = root()?;
    let files = generated();
    match Args::parse().task {
        Task::Generate => {
            output::write(&root, &files)?;
            compatibility::record(&root)
        }
        Task::Check => check(&root, &files),
    }
}

fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map(Path::to_path_buf).context("failed to find the root of the repository")
}

/// Every generated file with its content.
fn generated() -> Vec<output::Generated> {
    let mut files = crds::files();
    files.extend(manifests::files());
    files.extend(examples::files());
    files.push(api_docs::file());
    files.push(conditions::file());
    files.push(permissions::file());
    files
}

fn check(root: &Path, files: &[output::Generated]) -> Result<()> {
    let mut problems = output::stale(root, files);
    problems.extend(compatibility::problems(root)?);
    problems.extend(architecture::problems(root)?);
    problems.extend(promises::problems(root)?);
    if problems.is_empty() {
        println!(
            "generated files are current, CRDs are compatible, pure files are pure, promised tests exist"
        );
        return Ok(());
    }
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    bail!("{} problem(s)", problems.len())
}
