//! `.ci/steps` names test targets and modules that exist, and the `justfile` steps that exist. Otherwise a run would fail only
//! after half an hour, or run nothing.

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
fn every_test_target_and_module_that_ci_runs_exists() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut tests = vec![workspace.join("bench/tests")];
    for parent in ["crates", "apps", "verify"] {
        let members = directories(&workspace.join(parent));
        tests.extend(members.map(|member| member.join("tests")));
    }
    let is_target = |target: &str| {
        let mains = tests.iter().map(|tests| tests.join(target));
        mains
            .map(|dir| dir.join("main.rs"))
            .any(|main| main.exists())
    };
    let is_module = |filter: &str, targets: &[&str]| {
        let module = filter.trim_end_matches("::").replace("::", "/");
        let crates = tests.iter().filter(|tests| tests.exists());
        crates.flat_map(|tests| directories(tests)).any(|dir| {
            let target = dir.file_name().unwrap().to_str().unwrap();
            let is_built = targets.is_empty() || targets.contains(&target);
            let file = dir.join(format!("{module}.rs"));
            is_built && (file.exists() || dir.join(&module).join("mod.rs").exists())
        })
    };
    let script = fs::read_to_string(workspace.join(".ci/steps")).unwrap();
    let script = script.replace("\\\n", " ");
    let mut found = (0, 0);
    let mut missing = Vec::new();
    for line in script.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let named = words.windows(2).filter(|words| words[0] == "--test");
        let targets: Vec<_> = named.map(|words| words[1]).collect();
        let filters: Vec<_> = words.iter().filter(|word| word.ends_with("::")).collect();
        found = (found.0 + targets.len(), found.1 + filters.len());
        missing.extend(targets.iter().copied().filter(|target| !is_target(target)));
        missing.extend(
            filters
                .into_iter()
                .filter(|filter| !is_module(filter, &targets)),
        );
    }
    assert!(found.0 > 10 && found.1 > 10, "{found:?}");
    assert!(
        missing.is_empty(),
        "not a test target, or no module of one: {missing:?}"
    );
}

/// The words of a line of shell: `'random lives'` is one.
fn words(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate();
    quoted
        .flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

#[test]
fn every_step_that_the_justfile_names_exists() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let steps = fs::read_to_string(workspace.join(".ci/steps")).unwrap();
    let titles: Vec<_> = steps
        .lines()
        .filter_map(|line| line.strip_prefix("step \"")?.strip_suffix('"'))
        .collect();
    let justfile = fs::read_to_string(workspace.join("justfile")).unwrap();
    let calls = justfile.lines().filter_map(|line| {
        let (_, arguments) = line.split_once(".ci/steps ")?;
        let arguments = arguments.split('"').next().unwrap();
        (!line.starts_with('#')).then(|| words(arguments))
    });
    let named: Vec<_> = calls.flatten().collect();
    assert!(named.len() >= 4, "{named:?}");
    let missing: Vec<_> = named
        .iter()
        .filter(|words| !titles.iter().any(|title| title.contains(words.as_str())))
        .collect();
    assert!(missing.is_empty(), "not in a step's title: {missing:?}");
}

#[test]
fn the_workflow_runs_recipes_of_the_justfile() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let workflow = fs::read_to_string(workspace.join(".github/workflows/ci.yml")).unwrap();
    let justfile = fs::read_to_string(workspace.join("justfile")).unwrap();
    let recipes = workflow
        .lines()
        .find_map(|line| line.trim().strip_prefix("recipe: [")?.strip_suffix(']'))
        .unwrap();
    for recipe in recipes.split(", ").chain(["flaky", "bench"]) {
        let exists = justfile.lines().any(|line| {
            let mut rest = line.strip_prefix(recipe).unwrap_or("-").chars();
            matches!(rest.next(), Some(' ' | ':'))
        });
        assert!(exists, "the justfile has no recipe {recipe}");
    }
}
