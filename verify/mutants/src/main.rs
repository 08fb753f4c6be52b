//! Applies the mutants to a copy of the tree, builds it, and checks that each mutant is caught.
//!
//! `abide-mutants NAME…` hunts for these mutants only.

use std::{
    collections::BTreeSet,
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use abide_mutants::{Mutant, binaries, catalog, hunt, tree};
use anyhow::{Result, ensure};

/// The test binary in which the simulation hunts, and the test.
const SIMULATION: (&str, &str) = ("faults", "every_mutant_is_caught_by_its_checker");

/// The environment variable with the mutants that the simulation hunts for.
const WANTED: &str = "ABIDE_SIM_MUTANTS";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let mutants = catalog::read(&root)?;
    let wanted: Vec<String> = env::args().skip(1).collect();
    let is_wanted = |mutant: &&Mutant| wanted.is_empty() || wanted.contains(&mutant.name);
    let chosen: Vec<&Mutant> = mutants.iter().filter(is_wanted).collect();
    ensure!(!chosen.is_empty(), "there are no mutants {wanted:?}");
    let target_dir = env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let copy = target_dir.join("mutants");
    std::fs::create_dir_all(&copy)?;
    tree::copy(&root, &copy, &mutants)?;

    let simulated: Vec<&str> = chosen
        .iter()
        .filter(|mutant| mutant.property.is_some())
        .map(|mutant| &*mutant.name)
        .collect();
    let tests = chosen.iter().flat_map(|mutant| &mutant.tests);
    let mut names: BTreeSet<&str> = tests
        .filter_map(|test| Some(test.split_once("::")?.0))
        .collect();
    if !simulated.is_empty() {
        names.insert(SIMULATION.0);
    }
    let binaries = binaries::build(&copy, &target_dir, &names)?;

    let mut wrong = Vec::new();
    if let Some(simulation) = binaries.iter().find(|binary| binary.name == SIMULATION.0) {
        let status = Command::new(&simulation.path)
            .args([SIMULATION.1, "--exact", "--ignored", "--nocapture"])
            .current_dir(&simulation.dir)
            .env(WANTED, simulated.join(","))
            .status()?;
        if !status.success() {
            wrong.push("the simulation did not catch all of its mutants".to_owned());
        }
    }
    wrong.extend(hunt::hunt(&chosen, &binaries)?);
    if wrong.is_empty() {
        println!("all {} mutants were caught", chosen.len());
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("not caught:\n{}", wrong.join("\n"));
    Ok(ExitCode::FAILURE)
}
