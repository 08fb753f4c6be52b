//! `abide new`.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The project's program and its test, as they are in every project.
#[path = "../../template/main.rs"]
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    reason = "it is a separate program"
)]
mod template;

fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().unwrap()
}

fn new(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_abide"))
        .arg("new")
        .args(arguments)
        .current_dir(dir)
        .env_remove("RUST_BACKTRACE")
        .env_remove("RUST_LIB_BACKTRACE")
        .output()
        .unwrap()
}

fn refusal(dir: &Path, arguments: &[&str]) -> String {
    let refused = new(dir, arguments);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push(path.strip_prefix(dir).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_project_has_its_name_and_the_dependency_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let checkout = workspace();
    let made = new(
        dir.path(),
        &["my-app", "--path", checkout.to_str().unwrap()],
    );
    assert!(made.status.success(), "{made:?}");
    let app = dir.path().join("my-app");
    let expected = [
        ".gitignore",
        "Cargo.toml",
        "README.md",
        "abide.toml",
        "src/main.rs",
    ];
    assert_eq!(files(&app), expected);
    for file in expected {
        let text = fs::read_to_string(app.join(file)).unwrap();
        assert!(
            !text.contains("{name}") && !text.contains("{abide}"),
            "{file}: {text}"
        );
    }
    let manifest: toml::Table = fs::read_to_string(app.join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(manifest["package"]["name"].as_str(), Some("my-app"));
    let path = manifest["dependencies"]["abide"]["path"].as_str().unwrap();
    assert_eq!(Path::new(path), checkout.join("crates/abide"));

    fs::create_dir(dir.path().join("empty")).unwrap();
    let made = new(dir.path(), &["empty"]);
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.contains("--path DIR"), "{said}");
    let manifest: toml::Table = fs::read_to_string(dir.path().join("empty/Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        manifest["dependencies"]["abide"].as_str(),
        Some(env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn what_is_there_already_and_names_that_cargo_refuses_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("full")).unwrap();
    fs::write(dir.path().join("full/notes.txt"), "mine").unwrap();
    fs::write(dir.path().join("file"), "mine").unwrap();
    let before = files(dir.path());
    for (arguments, expected) in [
        (&["full"][..], "exists and is not empty"),
        (&["file"], "exists and is not a directory"),
        (&["../elsewhere"], "cannot be the name of a package"),
        (&["fn"], "cannot be the name of a package"),
        (&["abide"], "cannot be the name of a package"),
        (&["fine", "--path", "."], "not a checkout of abide"),
    ] {
        let said = refusal(dir.path(), arguments);
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(files(dir.path()), before);
}

/// What the guide shows of the project is what a project has. (Its other examples have more than `rust,ignore`.)
#[test]
fn the_guide_quotes_the_project_as_it_is() {
    let lines = |text: &str| -> Vec<String> {
        let trimmed = text.lines().map(|line| line.trim().to_owned());
        trimmed.filter(|line| !line.is_empty()).collect()
    };
    let program = lines(include_str!("../../template/main.rs"));
    let guide = include_str!("../../../../docs/getting-started.md");
    let quotes = guide.split("```rust,ignore\n").skip(1);
    let quotes: Vec<_> = quotes
        .map(|rest| lines(rest.split_once("```").unwrap().0))
        .collect();
    assert!(quotes.len() > 4, "{quotes:?}");
    for quote in quotes {
        let found = program.windows(quote.len()).any(|part| part == quote);
        assert!(found, "not in the template: {quote:#?}");
    }
}

const CHILD: &str = "ABIDE_TEST_PRINTS_SETTINGS";

/// A program's settings are those of its directory and of its environment: the test runs itself there.
#[test]
fn from_settings_reads_the_file_and_the_environment() {
    if std::env::var_os(CHILD).is_some() {
        match abide::Host::from_settings() {
            Ok(host) => println!("{host:?}"),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let settings = |variable: (&str, &str)| {
        let printed = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("new::from_settings_reads_the_file_and_the_environment")
            .env(CHILD, "1")
            .env(variable.0, variable.1)
            .current_dir(dir.path())
            .output()
            .unwrap();
        String::from_utf8(printed.stdout).unwrap()
    };
    fs::write(
        dir.path().join("abide.toml"),
        "[data]\ndir = \"elsewhere\"\n",
    )
    .unwrap();
    let said = settings(("ABIDE__SERVER__LISTEN", "127.0.0.1:1234"));
    assert!(
        said.contains("elsewhere") && said.contains("127.0.0.1:1234"),
        "{said}"
    );
    let said = settings(("ABIDE__SERVER__LISTN", "127.0.0.1:1234"));
    assert!(
        said.contains("refused:") && said.contains("ABIDE__SERVER__LISTN"),
        "{said}"
    );
}

/// Builds in `target/new-project` of this workspace, so that only the first run compiles dependencies.
#[test]
#[ignore = "compiles the dependencies anew"]
fn a_project_builds_and_passes_its_test() {
    let dir = tempfile::tempdir().unwrap();
    let checkout = workspace();
    let made = new(
        dir.path(),
        &["my-app", "--path", checkout.to_str().unwrap()],
    );
    assert!(made.status.success(), "{made:?}");
    let app = dir.path().join("my-app");
    // The versions that are at hand.
    fs::copy(checkout.join("Cargo.lock"), app.join("Cargo.lock")).unwrap();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout.join("target"), PathBuf::from);
    let tested = Command::new(env!("CARGO"))
        .args(["test", "--offline"])
        .env("CARGO_TARGET_DIR", target.join("new-project"))
        .current_dir(&app)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tested.stdout);
    let built = String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{said}\n{built}");
    assert!(said.contains("1 passed"), "{said}");
    assert!(!built.contains("warning"), "{built}");
}
