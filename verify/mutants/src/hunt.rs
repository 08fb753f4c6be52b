//! Runs tests with mutants on.

use std::{
    collections::BTreeSet,
    fs,
    fs::File,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{Mutant, binaries::Binary};

/// Concurrent processes: they mostly wait.
const HUNTERS: usize = 8;

/// A test that takes longer has not caught the mutant.
const PATIENCE: Duration = Duration::from_mins(3);

/// How long a test waits for something, in seconds.
const PATIENCE_VARIABLE: &str = "ABIDE_TEST_PATIENCE";

/// Attempts of a test to catch a mutant. Thread schedules differ from run to run, and a test may miss the fault.
const TRIES: usize = 10;

/// A test to run: with nothing broken, in which case it must pass, or with a mutant, in which case it must fail.
struct Case<'a> {
    binary: &'a Binary,
    test: &'a str,
    mutant: Option<&'a Mutant>,
    settings: &'a Mutant,
}

/// What a hunt has found.
pub struct Found {
    /// The mutants that were not caught within ten attempts, and the tests that failed with nothing broken.
    pub wrong: Vec<String>,
    /// Tests that did not begin before the hunt had to end.
    pub left: usize,
}

/// Runs the tests that must catch mutants, each in its own process. Prints the failure of each test. Each test also
/// runs once with nothing broken. No test begins after the end.
///
/// # Errors
/// If a test cannot be found or run.
pub fn hunt(mutants: &[&Mutant], binaries: &[Binary], end: Option<Instant>) -> Result<Found> {
    let mut sound = BTreeSet::new();
    let mut cases = Vec::new();
    for &mutant in mutants {
        for spec in &mutant.tests {
            let (binary, test) = find(binaries, spec)
                .with_context(|| format!("the test that must catch {}", mutant.name))?;
            let mut case = |broken| {
                cases.push(Case {
                    binary,
                    test,
                    mutant: broken,
                    settings: mutant,
                });
            };
            case(Some(mutant));
            if sound.insert((&binary.path, test, &mutant.settings)) {
                case(None);
            }
        }
    }
    if end.is_none() {
        // Passing tests take longest.
        cases.sort_by_key(|case| case.mutant.is_some());
    }
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let note = |text| {
        let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.push(text);
    };
    let work = || -> Result<()> {
        while end.is_none_or(|end| Instant::now() < end)
            && let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if let Some(text) = case.run()? {
                note(text);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let hunters: Vec<_> = (0..HUNTERS).map(|_| scope.spawn(work)).collect();
        for hunter in hunters {
            match hunter.join() {
                Ok(result) => result?,
                Err(_) => bail!("a hunter panicked"),
            }
        }
        Ok(())
    })?;
    Ok(Found {
        wrong: wrong.into_inner().unwrap_or_else(PoisonError::into_inner),
        left: cases.len().saturating_sub(next.into_inner()),
    })
}

/// The binary and the path of the test that a mutant names.
fn find<'a>(binaries: &'a [Binary], spec: &str) -> Result<(&'a Binary, &'a str)> {
    let (name, end) = spec.split_once("::").context("it has no binary")?;
    let mut found = Vec::new();
    for binary in binaries.iter().filter(|binary| binary.name == name) {
        let ends = |test: &&String| {
            let before = test.strip_suffix(end);
            before.is_some_and(|before| before.is_empty() || before.ends_with("::"))
        };
        let tests = binary.tests.iter().filter(ends);
        found.extend(tests.map(|test| (binary, &**test)));
    }
    match found[..] {
        [found] => Ok(found),
        [] => bail!("there is no test `{spec}`"),
        _ => bail!("`{spec}` is the end of several tests"),
    }
}

impl Case<'_> {
    /// Returns what is wrong, if something is.
    fn run(&self) -> Result<Option<String>> {
        let begun = Instant::now();
        let Self { binary, test, .. } = self;
        let Some(mutant) = self.mutant else {
            return Ok(match self.failure()? {
                None => {
                    println!("{test} passes, {:.1} s", begun.elapsed().as_secs_f64());
                    None
                }
                Some(text) => Some(format!("{test} fails with nothing broken: {text}")),
            });
        };
        for attempt in 1..=TRIES {
            if let Some(text) = self.failure()? {
                let (name, seconds) = (&mutant.name, begun.elapsed().as_secs_f64());
                println!("{name}: {test}, attempt {attempt}, {seconds:.1} s: {text:.120}");
                return Ok(None);
            }
        }
        let (name, binary) = (&mutant.name, &binary.name);
        Ok(Some(format!("{name}: {binary}::{test} passes")))
    }

    /// The failure of the test. A test that does not end has none.
    fn failure(&self) -> Result<Option<String>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("output");
        let output = File::create(&path)?;
        let mut command = Command::new(&self.binary.path);
        command
            .args([self.test, "--exact", "--include-ignored"])
            .current_dir(&self.binary.dir)
            .env("CARGO_MANIFEST_DIR", &self.binary.dir)
            .env("RUST_BACKTRACE", "0")
            .env_remove(mutant::VARIABLE)
            .envs(&self.settings.settings)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output);
        match self.mutant {
            Some(mutant) => command.env(mutant::VARIABLE, &mutant.name),
            // A short patience only shortens waits for what a mutant prevents.
            None => command.env_remove(PATIENCE_VARIABLE),
        };
        let mut child = command.spawn()?;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(10));
        };
        let said = said(&path)?;
        ensure!(
            said.contains("running 1 test"),
            "{} does not run `{}`: {said}",
            self.binary.name,
            self.test
        );
        Ok((!status.success()).then(|| last_words(&said)))
    }
}

fn said(output: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(output)?).into_owned())
}

/// The text of the last panic, which is that of the test; with the last seed, if the test prints seeds.
fn last_words(output: &str) -> String {
    let text = output
        .rsplit_once("panicked at ")
        .and_then(|(_, panic)| panic.split_once('\n'))
        .map_or(output, |(_, text)| text);
    let end = text.find("\n\n").unwrap_or(text.len());
    let end = text.find("\nnote: ").unwrap_or(end).min(end);
    let text: Vec<&str> = text[..end].split_whitespace().collect();
    let text = text.join(" ");
    let seed = output.lines().rev().find(|line| line.starts_with("seed "));
    match seed.filter(|_| !text.contains("seed ")) {
        Some(seed) => format!("{seed}: {text}"),
        None => text,
    }
}
