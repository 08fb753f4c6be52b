//! `.ci/steps` names test targets that exist. Otherwise it would fail only after half an hour.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn directories(of: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(of).unwrap();
    entries.map(|entry| entry.unwrap().path())
}

#[test]
fn every_test_target_that_ci_runs_exists() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut tests = vec![workspace.join("bench/tests")];
    for parent in ["crates", "apps", "verify"] {
        let members = directories(&workspace.join(parent));
        tests.extend(members.map(|member| member.join("tests")));
    }
    let exists = |target: &str| {
        tests.iter().any(|tests| {
            tests.join(format!("{target}.rs")).exists()
                || tests.join(target).join("main.rs").exists()
        })
    };
    let script = fs::read_to_string(workspace.join(".ci/steps")).unwrap();
    let words: Vec<_> = script.split_whitespace().collect();
    let targets: Vec<_> = words
        .windows(2)
        .filter(|words| words[0] == "--test")
        .map(|words| words[1])
        .collect();
    assert!(targets.len() > 30, "{targets:?}");
    let missing: Vec<_> = targets.iter().filter(|target| !exists(target)).collect();
    assert!(missing.is_empty(), "not a test target: {missing:?}");
}
