//! What the workspace depends on: from where, under which licences. `deny.toml` says what may be.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{collections::BTreeSet, path::Path, process::Command};

use serde::Deserialize;
use spdx::{Expression, ParseMode};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// None of a package of the workspace.
    source: Option<String>,
}

/// `Cargo.lock`, which has the dependencies of all platforms.
#[derive(Deserialize)]
struct Lock {
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The platform that this was built for.
fn host() -> String {
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let told = String::from_utf8(rustc.stdout).unwrap();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_owned()
}

fn dependencies() -> Vec<Package> {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        // Those of other platforms need not have been downloaded.
        .args(["--filter-platform", &host()])
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&cargo.stderr);
    assert!(cargo.status.success(), "{said}");
    let metadata: Metadata = serde_json::from_slice(&cargo.stdout).unwrap();
    let mut packages = metadata.packages;
    packages.retain(|package| package.source.is_some());
    packages
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let deny = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let allowed = toml::from_str::<Deny>(&deny).unwrap().licenses.allow;
    let packages = dependencies();
    assert!(packages.len() > 100, "{}", packages.len());
    for Package {
        name,
        version,
        license,
        ..
    } in packages
    {
        let license = license.unwrap_or_else(|| panic!("{name} {version} names no licence"));
        // Some still write "MIT/Apache-2.0".
        let terms = Expression::parse_mode(&license, ParseMode::LAX)
            .unwrap_or_else(|error| panic!("{name} {version}: {error}"));
        let is_allowed = terms.evaluate(|term| {
            let id = term.license.id();
            id.is_some_and(|id| allowed.contains(id.name))
        });
        assert!(is_allowed, "{name} {version} has the licence {license}");
    }
}

#[test]
fn every_dependency_comes_from_crates_io() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = toml::from_str::<Lock>(&lock).unwrap().package;
    assert!(packages.len() > 100, "{}", packages.len());
    for LockedPackage { name, source } in packages {
        let is_ours = source.is_none();
        assert!(
            is_ours || source.as_deref() == Some(CRATES_IO),
            "{name} comes from {source:?}"
        );
    }
}
