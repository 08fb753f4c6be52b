//! The copy of the tree that has the mutants.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{Mutant, patch};

/// The path of the switch's package in a tree.
const SWITCH: &str = "verify/mutants/switch";

/// Copies a tree to a directory and applies mutants to the copy. Files of an earlier copy that are the same keep their
/// times, so that little is built anew.
///
/// # Errors
/// If a mutant cannot be applied, or the copy cannot be written.
pub fn copy(root: &Path, to: &Path, mutants: &[Mutant]) -> Result<()> {
    let edited: BTreeSet<&str> = edits(mutants).collect();
    let packages: BTreeMap<String, String> = edited
        .iter()
        .map(|file| (format!("{}/Cargo.toml", package(file)), to_switch(file)))
        .collect();
    let mut copied = BTreeSet::new();
    for file in files(root)? {
        let from = root.join(&file);
        let bytes = fs::read(&from).with_context(|| from.display().to_string())?;
        let bytes = if edited.contains(&*file) {
            patch::apply(&file, str::from_utf8(&bytes)?, mutants)?.into_bytes()
        } else if let Some(switch) = packages.get(&file) {
            depending(str::from_utf8(&bytes)?, switch)
                .with_context(|| file.clone())?
                .into_bytes()
        } else {
            bytes
        };
        write(&to.join(&file), &bytes)?;
        copied.insert(to.join(file));
    }
    remove_others(to, &copied)
}

/// Checks that all mutants can be applied.
///
/// # Errors
/// If one cannot.
pub fn check(root: &Path, mutants: &[Mutant]) -> Result<()> {
    let edited: BTreeSet<&str> = edits(mutants).collect();
    for file in edited {
        let text = fs::read_to_string(root.join(file)).with_context(|| file.to_owned())?;
        patch::apply(file, &text, mutants)?;
    }
    Ok(())
}

fn edits(mutants: &[Mutant]) -> impl Iterator<Item = &str> {
    let edits = mutants.iter().flat_map(|mutant| &mutant.edits);
    edits.map(|edit| &*edit.file)
}

/// The tree's files: those that are versioned, and new ones that are not ignored.
fn files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    ensure!(output.status.success(), "git cannot list the tree's files");
    let names = String::from_utf8(output.stdout)?;
    let names = names.split_terminator('\0').map(str::to_owned);
    // Those that were removed and are still versioned are not there.
    Ok(names.filter(|name| root.join(name).is_file()).collect())
}

/// The directory of the package that a file belongs to, such as `crates/storage`.
fn package(file: &str) -> &str {
    file.split_once("/src/")
        .map_or(file, |(package, _)| package)
}

/// The path from a file's package to the switch.
fn to_switch(file: &str) -> String {
    let up = package(file).split('/').map(|_| "../");
    up.chain([SWITCH]).collect()
}

/// A package's manifest with a dependency on the switch.
fn depending(manifest: &str, switch: &str) -> Result<String> {
    let (before, after) = manifest
        .split_once("[dependencies]\n")
        .context("the manifest has no dependencies")?;
    Ok(format!(
        "{before}[dependencies]\nmutant = {{ path = \"{switch}\" }}\n{after}"
    ))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// Removes files of an earlier copy that the tree no longer has.
fn remove_others(dir: &Path, copied: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, copied)?;
        } else if !copied.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
