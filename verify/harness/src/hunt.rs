//! Tests of tests: each must fail with a deliberately broken variant of the product.

use std::{
    collections::BTreeSet,
    env,
    fmt::Debug,
    fs,
    fs::File,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Concurrent processes: they mostly wait.
const HUNTERS: usize = 8;

/// A test that takes longer has not caught the variant.
const PATIENCE: Duration = Duration::from_mins(3);

/// Attempts of a test to catch a variant. Thread schedules differ from run to run, and a test may miss the fault.
const TRIES: usize = 10;

const POISON: &str = "a hunter panicked";

/// Runs tests of this program, each in a separate process in which an environment variable selects a broken variant.
/// `caught_by` returns the end of the path of the test that must catch a variant, within ten attempts: `crash::nothing_is_lost`
/// is also the test `queue::crash::nothing_is_lost`. Prints the failure of each test. Each test also runs once with nothing
/// broken, and must pass.
///
/// # Panics
/// If a variant is not caught, or a test fails with nothing broken.
pub fn hunt<V: Copy + Debug>(
    variable: &str,
    settings: &[(&str, &str)],
    variants: &[V],
    caught_by: impl Fn(V) -> &'static str,
) {
    let tests = tests();
    let caught_by = |variant| path(&tests, caught_by(variant));
    let sound: BTreeSet<&str> = variants.iter().copied().map(caught_by).collect();
    // Passing tests take longest.
    let sound = sound.into_iter().map(|test| (String::new(), test));
    let broken = variants
        .iter()
        .map(|variant| (format!("{variant:?}"), caught_by(*variant)));
    let cases: Vec<(String, &str)> = sound.chain(broken).collect();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let note = |text: String| wrong.lock().expect(POISON).push(text);
    thread::scope(|scope| {
        for _ in 0..HUNTERS {
            scope.spawn(|| {
                while let Some((variant, test)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let tries = if variant.is_empty() { 1 } else { TRIES };
                    let complaint =
                        (0..tries).find_map(|_| complaint(test, variable, variant, settings));
                    let seconds = begun.elapsed().as_secs_f64();
                    match (variant.as_str(), complaint) {
                        ("", None) => println!("{test} passes, {seconds:.1} s"),
                        ("", Some(text)) => {
                            note(format!("{test} fails with nothing broken: {text}"));
                        }
                        (variant, Some(text)) => {
                            println!("{variant}: {test}, {seconds:.1} s: {text:.120}");
                        }
                        (variant, None) => note(format!("{variant}: {test} passes")),
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect(POISON);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The paths of all tests of this program.
fn tests() -> Vec<String> {
    let output = Command::new(env::current_exe().expect("this program"))
        .args(["--list", "--format", "terse"])
        .output()
        .expect("this program starts");
    let lines = String::from_utf8(output.stdout).expect("names of tests");
    let tests = lines.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.map(str::to_owned).collect()
}

/// The path of the one test that ends with these names of modules and of a function.
fn path<'a>(tests: &'a [String], end: &str) -> &'a str {
    let ends = |test: &&String| {
        let before = test.strip_suffix(end);
        before.is_some_and(|before| before.is_empty() || before.ends_with("::"))
    };
    let found: Vec<_> = tests.iter().filter(ends).collect();
    match found[..] {
        [test] => test,
        [] => panic!("there is no test `{end}`"),
        _ => panic!("`{end}` is the end of several tests: {found:?}"),
    }
}

/// The failure of a test.
fn complaint(
    test: &str,
    variable: &str,
    variant: &str,
    settings: &[(&str, &str)],
) -> Option<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("output");
    let output = File::create(&path).expect("a file");
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args([test, "--exact"])
        .env(variable, variant)
        .env("RUST_BACKTRACE", "0")
        .envs(settings.iter().copied())
        .stdin(Stdio::null())
        .stderr(output.try_clone().expect("a file"))
        .stdout(output)
        .spawn()
        .expect("this program starts");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().expect("a child");
            child.wait().expect("a child");
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let said = said(&path);
    assert!(said.contains("running 1 test"), "there is no test `{test}`");
    (!status.success()).then(|| last_words(&said))
}

fn said(output: &Path) -> String {
    String::from_utf8_lossy(&fs::read(output).expect("what the child said")).into_owned()
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
