//! Applies the mutants to a copy of the tree, builds it, and checks that each mutant is caught.
//!
//! `abide-mutants NAME…` hunts for these mutants only. `abide-mutants --minutes N SEED` begins no test after N minutes, and hunts in an
//! order that depends on the seed.

use std::{
    collections::{BTreeSet, hash_map::DefaultHasher},
    env,
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use abide_mutants::{Mutant, binaries, catalog, hunt, tree};
use anyhow::{Context as _, Result, ensure};

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

/// What the arguments ask for.
#[derive(Default)]
struct Wanted {
    /// All, if none is named.
    names: Vec<String>,
    /// How long the hunt may last, and the seed of its order.
    within: Option<(Duration, String)>,
}

impl Wanted {
    fn parse() -> Result<Self> {
        let mut arguments: Vec<String> = env::args().skip(1).collect();
        if arguments.first().is_none_or(|first| first != "--minutes") {
            return Ok(Self {
                names: arguments,
                within: None,
            });
        }
        ensure!(arguments.len() == 3, "the arguments are --minutes N SEED");
        let seed = arguments.remove(2);
        let minutes = arguments[1].parse().context("the number of minutes")?;
        Ok(Self {
            names: Vec::new(),
            within: Some((Duration::from_mins(minutes), seed)),
        })
    }

    fn choose<'a>(&self, mutants: &'a [Mutant]) -> Result<Vec<&'a Mutant>> {
        let is_wanted =
            |mutant: &&Mutant| self.names.is_empty() || self.names.contains(&mutant.name);
        let mut chosen: Vec<_> = mutants.iter().filter(is_wanted).collect();
        ensure!(!chosen.is_empty(), "there are no mutants {:?}", self.names);
        if let Some((_, seed)) = &self.within {
            chosen.sort_by_cached_key(|mutant| {
                let mut hasher = DefaultHasher::new();
                (seed, &mutant.name).hash(&mut hasher);
                hasher.finish()
            });
        }
        Ok(chosen)
    }
}

fn run() -> Result<ExitCode> {
    let wanted = Wanted::parse()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let mutants = catalog::read(&root)?;
    let chosen = wanted.choose(&mutants)?;
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

    let end = wanted.within.map(|(most, _)| Instant::now() + most);
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
    let found = hunt::hunt(&chosen, &binaries, end)?;
    wrong.extend(found.wrong);
    if wrong.is_empty() {
        match found.left {
            0 => println!("all {} mutants were caught", chosen.len()),
            left => {
                println!("time is up: {left} tests did not run; the others caught their mutants");
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("not caught:\n{}", wrong.join("\n"));
    Ok(ExitCode::FAILURE)
}
