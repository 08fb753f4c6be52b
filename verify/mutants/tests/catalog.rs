//! The mutants fit the tree as it is.

use std::{collections::BTreeSet, fs, path::Path};

use abide_mutants::{catalog, tree};
use anyhow::{Context as _, Result, ensure};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn each_mutant_replaces_a_text_that_is_there_once() -> Result<()> {
    let mutants = catalog::read(root())?;
    ensure!(mutants.len() > 300, "only {} mutants", mutants.len());
    tree::check(root(), &mutants)
}

#[test]
fn each_mutant_breaks_a_promise_and_names_tests_that_exist() -> Result<()> {
    let tests = test_functions()?;
    for mutant in catalog::read(root())? {
        let name = &mutant.name;
        for sentence in [&mutant.fault, &mutant.promise] {
            let is_whole = sentence.ends_with('.') && !sentence.starts_with(char::is_lowercase);
            ensure!(is_whole, "{name}: {sentence}");
        }
        for spec in &mutant.tests {
            let function = spec.rsplit("::").next().context("a function")?;
            ensure!(
                tests.contains(function),
                "{name}: there is no test {function}"
            );
        }
    }
    Ok(())
}

/// The names of all functions that are tests.
fn test_functions() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for part in ["crates", "apps", "verify/cluster"] {
        collect(&root().join(part), &mut names)?;
    }
    Ok(names)
}

fn collect(dir: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("node_modules") {
            collect(&path, names)?;
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path)?;
            let marked = text.split("#[test]").skip(1);
            let marked = marked.chain(text.split("#[tokio::test").skip(1));
            names.extend(marked.filter_map(|rest| {
                let (_, name) = rest.split_once("fn ")?;
                Some(name.split_once('(')?.0.to_owned())
            }));
        }
    }
    Ok(())
}
