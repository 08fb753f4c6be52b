//! A seed gives one history, to the last change of the disk: in one process, on another thread, and in another process.

use std::{process::Command, sync::LazyLock, thread};

use abide_sim::{Plan, expect_panics, simulate};

const SEEDS: u64 = 50;

fn fingerprints() -> Vec<u64> {
    (0..SEEDS)
        .map(|seed| simulate(&Plan::varied(seed)).fingerprint)
        .collect()
}

static FIRST: LazyLock<Vec<u64>> = LazyLock::new(|| {
    expect_panics();
    fingerprints()
});

#[test]
fn a_seed_gives_the_same_history_twice_and_on_another_thread() {
    assert_eq!(*FIRST, fingerprints());
    let other = thread::spawn(fingerprints).join();
    assert_eq!(*FIRST, other.expect("the other thread ends"));
}

#[test]
fn a_seed_gives_the_same_history_in_another_process() {
    let output = Command::new(env!("CARGO_BIN_EXE_abide-sim"))
        .args(["fingerprints", "--seeds", &SEEDS.to_string()])
        .output()
        .expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let other: Vec<u64> = text
        .lines()
        .map(|line| u64::from_str_radix(line, 16).expect("a fingerprint"))
        .collect();
    assert_eq!(other, *FIRST);
}

#[test]
fn other_seeds_give_other_histories() {
    let mut all = FIRST.clone();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len() as u64, SEEDS);
}
