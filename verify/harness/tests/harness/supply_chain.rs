//! What the workspace depends on: from where, under which licences, in how many versions, on how many packages.
//! `deny.toml` has the rules, as for `cargo deny check licenses bans sources`.
//!
//! Licences and versions are those of the packages themselves, with all features. A build does not download all of these, so
//! the tests that read them are ignored, and `just supply-chain` runs them.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde::Deserialize;
use spdx::{Expression, ParseMode};

/// Builds whose packages are counted: the options of `cargo tree` that select them, and how many packages of others they
/// compile. An addition is to be weighed: correct the number with the change that needs it.
const BUILDS: [(&[&str], usize); 4] = [
    // The smallest: a program with a node and without a server.
    (&["--package", "abide", "--no-default-features"], 72),
    // A program with components and without a server.
    (&["--package", "abide-lean"], 94),
    // A program with a server and without components.
    (&["--package", "flight-seating"], 187),
    (&["--workspace"], 294),
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

/// What is built for a target, with all features.
#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `dev`, `build`, or none.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
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
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Bans {
    multiple_versions: String,
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
struct Skip {
    /// `NAME@VERSION`, of whose parts only the first may be given.
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn deny() -> Deny {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

/// The packages for all targets of `deny.toml`. Downloads those that are missing.
fn metadata() -> Metadata {
    let targets = deny().graph.targets;
    let platforms = targets
        .iter()
        .flat_map(|target| ["--filter-platform", target]);
    let cargo = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--all-features",
        ])
        .args(platforms)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&cargo.stderr);
    assert!(cargo.status.success(), "{said}");
    serde_json::from_slice(&cargo.stdout).unwrap()
}

/// Everything that is built, tests included.
fn dependencies() -> Vec<Package> {
    let Metadata { packages, resolve } = metadata();
    let built: BTreeSet<_> = resolve.nodes.iter().map(|node| &node.id).collect();
    let mut packages = packages;
    packages.retain(|package| package.source.is_some() && built.contains(&package.id));
    assert!(packages.len() > 100, "{}", packages.len());
    packages
}

/// What the programs of the workspace are built of, without its tests.
fn dependencies_of_programs() -> Vec<Package> {
    let Metadata { packages, resolve } = metadata();
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let own = packages.iter().filter(|package| package.source.is_none());
    let mut waiting: Vec<_> = own.map(|package| &package.id).collect();
    let mut built = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if built.insert(id) {
            let deps = nodes[id].deps.iter();
            let needed = deps.filter(|dep| {
                let mut kinds = dep.dep_kinds.iter();
                kinds.any(|kind| kind.kind.as_deref() != Some("dev"))
            });
            waiting.extend(needed.map(|dep| &dep.pkg));
        }
    }
    let is_built = |package: &&Package| package.source.is_some() && built.contains(&package.id);
    let ids: BTreeSet<_> = packages
        .iter()
        .filter(is_built)
        .map(|package| package.id.clone())
        .collect();
    packages
        .into_iter()
        .filter(|package| ids.contains(&package.id))
        .collect()
}

#[test]
#[ignore = "downloads packages that a build does not need"]
fn every_dependency_has_a_licence_that_is_allowed() {
    let Licenses { allow, exceptions } = deny().licenses;
    let mut excepted = BTreeSet::new();
    for Package {
        name,
        version,
        license,
        ..
    } in dependencies()
    {
        let license = license.unwrap_or_else(|| panic!("{name} {version} names no licence"));
        // Some still write "MIT/Apache-2.0".
        let terms = Expression::parse_mode(&license, ParseMode::LAX)
            .unwrap_or_else(|error| panic!("{name} {version}: {error}"));
        let of_crate = exceptions.iter().find(|exception| exception.name == name);
        excepted.extend(of_crate.map(|exception| &exception.name));
        let is_allowed = terms.evaluate(|term| {
            let id = term.license.id();
            let is_excepted = |id: &str| of_crate.is_some_and(|of| of.allow.contains(id));
            id.is_some_and(|id| allow.contains(id.name) || is_excepted(id.name))
        });
        assert!(is_allowed, "{name} {version} has the licence {license}");
    }
    assert_eq!(excepted.len(), exceptions.len(), "an exception is unused");
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

#[test]
#[ignore = "downloads packages that a build does not need"]
fn a_second_version_of_a_crate_is_named_with_its_reason() {
    let Bans {
        multiple_versions,
        skip,
    } = deny().bans;
    assert_eq!(multiple_versions, "deny");
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in dependencies_of_programs() {
        let of = versions.entry(package.name).or_default();
        of.insert(package.version);
    }
    let mut used = BTreeSet::new();
    for (name, versions) in &versions {
        let others = versions.iter().filter(|version| {
            let skipped = skip.iter().find(|skip| {
                let (skipped, parts) = skip.name.split_once('@').unwrap();
                let begins = version.strip_prefix(parts);
                skipped == name && begins.is_some_and(|rest| rest.starts_with('.'))
            });
            used.extend(skipped.map(|skip| &skip.name));
            skipped.is_none()
        });
        let others: Vec<_> = others.collect();
        assert!(others.len() <= 1, "{name} has the versions {others:?}");
    }
    for Skip { name, reason } in &skip {
        assert!(!reason.is_empty(), "{name}");
        assert!(
            used.contains(name),
            "{name} is no longer needed: remove it from deny.toml"
        );
    }
}

/// The packages of others that a build for the first target of `deny.toml` compiles.
fn compiled(selection: &[&str]) -> BTreeSet<String> {
    let target = &deny().graph.targets[0];
    let cargo = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}", "--target", target])
        .args(selection)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&cargo.stderr);
    assert!(cargo.status.success(), "{said}");
    let tree = String::from_utf8(cargo.stdout).unwrap();
    let others = tree.lines().filter(|line| !line.contains(" (/"));
    let others = others.filter_map(|line| {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?))
    });
    others.collect()
}

#[test]
#[ignore = "downloads packages that a build does not need"]
fn builds_need_as_many_packages_as_expected() {
    for (selection, expected) in BUILDS {
        let packages = compiled(selection);
        assert_eq!(packages.len(), expected, "{selection:?}: {packages:#?}");
    }
}
