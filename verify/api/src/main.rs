//! The public API of each library in `crates/`, as text in its `api.txt`, so that a review sees each change.
//!
//! `abide-api` writes the lists; `abide-api check` compares, and fails if they differ. The lists come from rustdoc's JSON, which
//! is unstable: this program runs as `rustdoc` in the place of the toolchain's (`RUSTDOC`), allows unstable options, and calls
//! it. Items that are hidden from the documentation are not listed.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail, ensure};

/// Rust of this version writes the JSON that `public-api` reads.
const TOOLCHAIN: &str = "rustc 1.95.";

/// Set for the calls of this program as `rustdoc`: the real one.
const RUSTDOC: &str = "ABIDE_API_RUSTDOC";

fn main() -> Result<ExitCode> {
    if let Some(rustdoc) = env::var_os(RUSTDOC) {
        return run_as_rustdoc(&rustdoc);
    }
    let check = match env::args().nth(1).as_deref() {
        None => false,
        Some("check") => true,
        Some(other) => bail!("unknown argument `{other}`: give `check`, or nothing"),
    };
    let version = output(Command::new("rustc").arg("--version"))?;
    if !version.starts_with(TOOLCHAIN) {
        println!("Not compared: the lists are made with {TOOLCHAIN}x, and this is {version}");
        return Ok(ExitCode::SUCCESS);
    }
    let lists = lists()?;
    if check {
        return Ok(compare(&lists));
    }
    for (file, list) in &lists {
        fs::write(file, list)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_as_rustdoc(rustdoc: &std::ffi::OsStr) -> Result<ExitCode> {
    let status = Command::new(rustdoc)
        .args(env::args_os().skip(1))
        .env("RUSTC_BOOTSTRAP", "1")
        .status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The list of each library, by its file.
fn lists() -> Result<BTreeMap<PathBuf, String>> {
    let metadata = output(Command::new("cargo").args([
        "metadata",
        "--locked",
        "--no-deps",
        "--format-version=1",
    ]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let target = metadata["target_directory"].as_str().context("a target")?;
    let status = Command::new("cargo")
        .args([
            "doc",
            "--locked",
            "--quiet",
            "--no-deps",
            "--workspace",
            "--lib",
        ])
        .arg("--all-features")
        .env("RUSTDOC", env::current_exe()?)
        .env(RUSTDOC, "rustdoc")
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json")
        .status()?;
    ensure!(status.success(), "cargo doc: {status}");
    let mut lists = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = Path::new(package["manifest_path"].as_str().context("a path")?);
        let folder = manifest.parent().context("a folder")?;
        let is_listed = folder
            .parent()
            .is_some_and(|parent| parent.ends_with("crates"));
        let library = package["targets"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|target| {
                let kinds = target["kind"].as_array();
                kinds.is_some_and(|kinds| {
                    kinds
                        .iter()
                        .any(|kind| kind == "lib" || kind == "proc-macro")
                })
            });
        let Some(library) = library.filter(|_| is_listed) else {
            continue;
        };
        let name = library["name"].as_str().context("a name")?;
        let json = Path::new(target).join("doc").join(format!("{name}.json"));
        let api = public_api::Builder::from_rustdoc_json(&json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()
            .with_context(|| format!("{}", json.display()))?;
        lists.insert(folder.join("api.txt"), api.to_string());
    }
    Ok(lists)
}

fn compare(lists: &BTreeMap<PathBuf, String>) -> ExitCode {
    let mut differ = false;
    for (file, list) in lists {
        let before = fs::read_to_string(file).unwrap_or_default();
        let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), list.lines().collect());
        for line in old.iter().filter(|line| !new.contains(line)) {
            println!("{}: - {line}", file.display());
        }
        for line in new.iter().filter(|line| !old.contains(line)) {
            println!("{}: + {line}", file.display());
        }
        differ |= before != *list;
    }
    if !differ {
        return ExitCode::SUCCESS;
    }
    println!("The public API has changed: run `just api`, and commit the lists.");
    ExitCode::FAILURE
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
