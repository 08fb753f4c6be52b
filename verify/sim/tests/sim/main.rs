//! Tests of the simulation.

mod checkers;
mod determinism;
mod reach;
mod seeds;
mod shrinker;
