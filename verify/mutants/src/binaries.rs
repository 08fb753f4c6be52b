//! The test binaries of a tree.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// A test binary.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The name of its target.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// The directory of its package, in which it runs.
    pub dir: PathBuf,
    /// The paths of its tests.
    pub tests: Vec<String>,
}

#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    #[serde(rename = "message")]
    diagnostic: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: String,
}

/// Builds the binaries with these names, of integration tests and of libraries' unit tests, in a tree.
///
/// # Errors
/// If they do not build; the compiler's errors are part of the error.
pub fn build(tree: &Path, target_dir: &Path, names: &BTreeSet<&str>) -> Result<Vec<Binary>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--workspace", "--offline", "--no-run"]);
    cargo.args(["--message-format=json", "--lib"]);
    for name in names.iter().filter(|name| is_integration_test(tree, name)) {
        cargo.args(["--test", name]);
    }
    let output = cargo
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target_dir)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let mut binaries = Vec::new();
    let mut errors = String::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Message = serde_json::from_str(line)?;
        if let Some(diagnostic) = message
            .diagnostic
            .filter(|diagnostic| diagnostic.level == "error")
        {
            errors.push_str(&diagnostic.rendered);
        }
        let (Some(path), Some(manifest), Some(target)) =
            (message.executable, message.manifest_path, message.target)
        else {
            continue;
        };
        if names.contains(&*target.name) {
            binaries.push(Binary {
                name: target.name,
                tests: tests(&path)?,
                dir: manifest.parent().unwrap_or(tree).to_owned(),
                path,
            });
        }
    }
    ensure!(
        output.status.success(),
        "the tree does not build with its mutants:\n{errors}"
    );
    Ok(binaries)
}

/// True if a name is that of a test target, and not of a library.
fn is_integration_test(tree: &Path, name: &str) -> bool {
    ["crates", "apps", "verify"].iter().any(|part| {
        let packages = tree.join(part).read_dir().into_iter().flatten().flatten();
        packages.into_iter().any(|package| {
            let tests = package.path().join("tests");
            tests.join(name).is_dir() || tests.join(format!("{name}.rs")).is_file()
        })
    })
}

/// The paths of all tests of a binary.
fn tests(binary: &Path) -> Result<Vec<String>> {
    let output = Command::new(binary)
        .args(["--list", "--format", "terse"])
        .output()
        .with_context(|| binary.display().to_string())?;
    let lines = String::from_utf8(output.stdout)?;
    let tests = lines.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(tests.map(str::to_owned).collect())
}
