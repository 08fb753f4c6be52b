//! Tests of the simulation.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod checkers;
mod determinism;
mod losses;
mod reach;
mod seeds;
mod shrinker;
