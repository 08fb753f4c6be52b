//! The list of invariants and the names of the tests agree.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The numbers of the list in the crate's documentation, in its order: `- **s7** …`.
fn listed() -> Vec<u32> {
    let documentation = include_str!("../../../src/lib.rs");
    let items = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("//! - **s"));
    items
        .map(|item| item.split_once("**").unwrap().0.parse().unwrap())
        .collect()
}

/// The numbers at the beginning of a test's name: 1 and 2 of `s1_s2_a_crash`.
fn numbers(name: &str) -> impl Iterator<Item = u32> {
    let words = name.split('_');
    words.map_while(|word| word.strip_prefix('s')?.parse().ok())
}

/// The tests in the Rust files below a directory that are named after invariants, by number.
fn tests(dir: &Path, found: &mut BTreeMap<u32, Vec<String>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let lines: Vec<_> = source.lines().map(str::trim).collect();
            // The function that follows an attribute.
            for (at, _) in lines
                .iter()
                .enumerate()
                .filter(|(_, line)| **line == "#[test]")
            {
                let function = lines[at..].iter().find_map(|line| line.strip_prefix("fn "));
                let name = function.unwrap().split('(').next().unwrap();
                for number in numbers(name) {
                    found.entry(number).or_default().push(name.to_owned());
                }
            }
        }
    }
}

#[test]
fn every_invariant_has_a_test_named_after_it() {
    let listed = listed();
    let consecutive: Vec<u32> = (1..).take(listed.len()).collect();
    assert_eq!(listed, consecutive, "the list has a gap or a duplicate");

    let mut found = BTreeMap::new();
    tests(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"),
        &mut found,
    );
    let tested: BTreeSet<u32> = found.keys().copied().collect();
    let listed: BTreeSet<u32> = listed.into_iter().collect();
    let untested: Vec<_> = listed.difference(&tested).collect();
    assert!(untested.is_empty(), "no test is named after s{untested:?}");
    let unlisted: Vec<_> = tested
        .difference(&listed)
        .map(|number| &found[number])
        .collect();
    assert!(unlisted.is_empty(), "no such invariant: {unlisted:?}");
}

#[test]
fn numbers_are_read_from_the_beginning_of_a_name() {
    let all = |name| numbers(name).collect::<Vec<_>>();
    assert_eq!(all("s1_s2_s14_hold"), [1, 2, 14]);
    assert_eq!(all("s3_a_file_and_s4"), [3]);
    assert!(all("syncs_s8").is_empty());
}
