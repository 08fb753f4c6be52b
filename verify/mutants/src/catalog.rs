//! The files of mutants.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// A deliberate fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Its name, by which it is switched on.
    pub name: String,
    /// How the product is broken.
    pub fault: String,
    /// What it promises, and no longer keeps.
    pub promise: String,
    /// The tests that must fail: the name of a test binary, and the end of a test's path in it, such as
    /// `components::crash::nothing_is_lost` for `queue::crash::nothing_is_lost` in the binary `components`.
    #[serde(default)]
    pub tests: Vec<String>,
    /// The property that the simulation must find violated.
    pub property: Option<String>,
    /// What the simulation's plans are to be about, for a fault that otherwise shows in rare schedules only.
    pub focus: Option<String>,
    /// Other mutants that must be on for this one to have an effect. No test need catch those alone.
    #[serde(default)]
    pub with: Vec<String>,
    /// The changes that make it.
    #[serde(rename = "edit")]
    pub edits: Vec<Edit>,
    /// Environment variables for its tests: the settings of its file.
    #[serde(skip)]
    pub settings: BTreeMap<String, String>,
}

/// A replacement of text in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file's path in the tree.
    pub file: String,
    /// The text that it replaces, which the file has once.
    pub old: String,
    /// The new text, in which `mutant::on("…")` switches between the two.
    pub new: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(rename = "mutant")]
    mutants: Vec<Mutant>,
}

/// Reads all mutants of a tree.
///
/// # Errors
/// If a file cannot be read, a name is used twice, or a mutant has no switch or is to be caught by no one.
pub fn read(root: &Path) -> Result<Vec<Mutant>> {
    let dir = root.join("verify/mutants");
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_list = path.extension().is_some_and(|kind| kind == "toml");
        if is_list && !path.ends_with("Cargo.toml") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut mutants: Vec<Mutant> = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        let file: File = toml::from_str(&text).with_context(|| path.display().to_string())?;
        for mut mutant in file.mutants {
            mutant.settings.clone_from(&file.settings);
            mutant.check().with_context(|| path.display().to_string())?;
            mutants.push(mutant);
        }
    }
    let names: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.name).collect();
    ensure!(names.len() == mutants.len(), "two mutants have one name");
    let helpers: BTreeSet<&str> = mutants
        .iter()
        .flat_map(|mutant| &mutant.with)
        .map(|name| &**name)
        .collect();
    if let Some(unknown) = helpers.difference(&names).next() {
        bail!("there is no mutant {unknown}");
    }
    for mutant in &mutants {
        let is_caught = !mutant.tests.is_empty() || mutant.property.is_some();
        ensure!(
            is_caught || helpers.contains(&*mutant.name),
            "{} is to be caught by no test",
            mutant.name
        );
    }
    Ok(mutants)
}

impl Mutant {
    fn check(&self) -> Result<()> {
        let Self { name, edits, .. } = self;
        let switch = format!("mutant::on(\"{name}\")");
        ensure!(
            edits.iter().any(|edit| edit.new.contains(&switch)),
            "no change of {name} contains {switch}"
        );
        Ok(())
    }
}
